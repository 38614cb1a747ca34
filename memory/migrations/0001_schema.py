import core.ids
import django.contrib.postgres.search
import django.db.models.functions.datetime
import pgvector.django.vector
from pgvector.django import VectorExtension
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("memory", "0001_initial"),
    ]

    initial = True

    dependencies = [
    ]

    operations = [
        VectorExtension(),
        migrations.CreateModel(
            name='EmbeddingChoice',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('model', models.CharField(max_length=120)),
                ('coming', models.CharField(blank=True, max_length=120)),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='MemoryChunk',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('owner_id', models.UUIDField()),
                ('scope', models.CharField(choices=[('workspace', 'Workspace'), ('agent', 'Agent'), ('user', 'User'), ('session', 'Session')], max_length=9)),
                ('position', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('label', models.TextField(blank=True)),
                ('speakers', models.TextField(blank=True)),
                ('beside', models.TextField(blank=True)),
                ('tsv', models.GeneratedField(db_persist=True, expression=django.contrib.postgres.search.CombinedSearchVector(django.contrib.postgres.search.CombinedSearchVector(django.contrib.postgres.search.CombinedSearchVector(django.contrib.postgres.search.SearchVector('text', config='english', weight='A'), '||', django.contrib.postgres.search.SearchVector('label', config='english', weight='B'), django.contrib.postgres.search.SearchConfig('english')), '||', django.contrib.postgres.search.SearchVector('speakers', config='english', weight='C'), django.contrib.postgres.search.SearchConfig('english')), '||', django.contrib.postgres.search.SearchVector('beside', config='english', weight='D'), django.contrib.postgres.search.SearchConfig('english')), output_field=django.contrib.postgres.search.SearchVectorField())),
            ],
            options={
                'ordering': ['entry', 'position'],
            },
        ),
        migrations.CreateModel(
            name='MemoryEntry',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('path', models.CharField(max_length=400)),
                ('scope', models.CharField(choices=[('workspace', 'Workspace'), ('agent', 'Agent'), ('user', 'User'), ('session', 'Session')], default='agent', max_length=9)),
                ('owner_id', models.UUIDField(editable=False)),
                ('hash', models.CharField(editable=False, max_length=64)),
                ('pinned', models.BooleanField(default=False)),
                ('never_recall', models.BooleanField(default=False)),
                ('trust', models.CharField(choices=[('trusted', 'Trusted'), ('untrusted', 'Untrusted')], default='trusted', max_length=9)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('deleted_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'verbose_name_plural': 'memory entries',
                'db_table': 'agent_memory_entries',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='MemoryVector',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('owner_id', models.UUIDField()),
                ('scope', models.CharField(choices=[('workspace', 'Workspace'), ('agent', 'Agent'), ('user', 'User'), ('session', 'Session')], max_length=9)),
                ('model', models.CharField(max_length=120)),
                ('dimensions', models.PositiveIntegerField()),
                ('vector', pgvector.django.vector.VectorField()),
            ],
            options={
                'ordering': ['chunk', 'model'],
            },
        ),
        migrations.CreateModel(
            name='MemoryVersion',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('content', models.TextField(blank=True)),
                ('hash', models.CharField(blank=True, max_length=64)),
                ('bytes', models.PositiveIntegerField(default=0)),
                ('trust', models.CharField(choices=[('trusted', 'Trusted'), ('untrusted', 'Untrusted')], max_length=9)),
                ('author', models.CharField(choices=[('person', 'Person'), ('tool', 'Tool'), ('runtime', 'Runtime'), ('import', 'Import')], max_length=7)),
                ('tool', models.CharField(blank=True, max_length=80)),
                ('session_id', models.UUIDField(blank=True, null=True)),
                ('run_id', models.UUIDField(blank=True, null=True)),
                ('call_id', models.CharField(blank=True, max_length=200)),
                ('event_id', models.UUIDField(blank=True, null=True)),
                ('redacted_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-number'],
            },
        ),
    ]
