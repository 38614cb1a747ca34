import core.ids
import django.db.models.deletion
import django.db.models.functions.datetime
import encrypted_fields.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("agents", "0001_initial"),
    ]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('agent', 'Agent'), ('builder', 'Builder')], db_default='agent', default='agent', max_length=7)),
                ('is_draft', models.BooleanField(db_default=False, default=False)),
                ('archived_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='AgentVersion',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('preview', models.PositiveIntegerField(blank=True, editable=False, null=True)),
                ('name', models.CharField(max_length=80)),
                ('description', models.TextField(blank=True)),
                ('system_prompt', models.TextField(blank=True)),
                ('provider', models.CharField(max_length=20)),
                ('model', models.CharField(max_length=120)),
                ('runner', models.CharField(choices=[('harness', 'Harness')], default='harness', max_length=20)),
                ('fallbacks', models.JSONField(blank=True, default=list)),
                ('temperature', models.FloatField(blank=True, null=True)),
                ('max_tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('limits', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'ordering': ['-number'],
            },
        ),
        migrations.CreateModel(
            name='CanvasRevision',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('nodes', models.JSONField(default=list)),
                ('edges', models.JSONField(default=list)),
                ('session_id', models.UUIDField(blank=True, null=True)),
                ('run_id', models.UUIDField(blank=True, null=True)),
                ('call_id', models.CharField(blank=True, max_length=64)),
            ],
            options={
                'ordering': ['-number'],
            },
        ),
        migrations.CreateModel(
            name='DraftChange',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('revision', models.PositiveIntegerField()),
                ('part', models.CharField(max_length=40)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
                ('session_id', models.UUIDField(blank=True, null=True)),
                ('run_id', models.UUIDField(blank=True, null=True)),
                ('call_id', models.CharField(blank=True, max_length=64)),
                ('settled', models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-revision', 'part'],
            },
        ),
        migrations.CreateModel(
            name='Environment',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('kind', models.CharField(choices=[('local', 'Local'), ('container', 'Container')], default='local', max_length=9)),
                ('network', models.CharField(choices=[('none', 'None'), ('allowlist', 'Allowlist'), ('full', 'Full')], default='none', max_length=9)),
                ('allowed_hosts', models.JSONField(blank=True, default=list)),
                ('image', models.CharField(blank=True, max_length=200)),
                ('mounts', models.JSONField(blank=True, default=list)),
                ('limits', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='ProviderKey',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('provider', models.CharField(max_length=20)),
                ('base_url', models.URLField(blank=True)),
                ('secret', encrypted_fields.fields.EncryptedTextField(blank=True, null=True)),
                ('hint', models.CharField(blank=True, editable=False, max_length=8)),
                ('checked_at', models.DateTimeField(editable=False, null=True)),
                ('check_error', models.TextField(blank=True, editable=False)),
            ],
            options={
                'ordering': ['provider'],
            },
        ),
        migrations.CreateModel(
            name='AgentDraft',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='draft', serialize=False, to='agents.agent')),
                ('revision', models.PositiveIntegerField(default=0)),
                ('fields', models.JSONField(blank=True, default=dict)),
                ('policy', models.JSONField(blank=True, null=True)),
                ('policy_base', models.PositiveIntegerField(blank=True, null=True)),
                ('canvas_base', models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Canvas',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='canvas', serialize=False, to='agents.agent')),
                ('revision', models.PositiveIntegerField(default=0)),
                ('published', models.PositiveIntegerField(blank=True, null=True)),
                ('published_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
    ]
