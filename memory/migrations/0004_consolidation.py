"""Adds the consolidation of memory: its proposals, their changes, and the choice of each agent."""

import core.ids
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
from decimal import Decimal
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0004_plugin_sandboxes'),
        ('memory', '0003_count_storage'),
        ('tenants', '0006_memory_calls'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Consolidation',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('status', models.CharField(choices=[('reviewing', 'Reviewing'), ('waiting', 'Waiting'), ('nothing', 'Nothing'), ('applied', 'Applied'), ('discarded', 'Discarded'), ('undone', 'Undone')], default='reviewing', max_length=9)),
                ('session_id', models.UUIDField(editable=False, null=True)),
                ('run_id', models.UUIDField(editable=False, null=True)),
                ('answers', models.JSONField(default=dict, editable=False)),
                ('settled', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=16), default=list, editable=False, size=None)),
                ('remark', models.TextField(blank=True)),
                ('documents', models.PositiveIntegerField(default=0)),
                ('notes', models.PositiveIntegerField(default=0)),
                ('cost', models.DecimalField(decimal_places=8, default=0, max_digits=16)),
                ('decided_at', models.DateTimeField(editable=False, null=True)),
                ('undone_at', models.DateTimeField(editable=False, null=True)),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('decided_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('undone_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'memory_consolidations',
                'ordering': ['-created_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='ConsolidationChange',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('position', models.PositiveIntegerField()),
                ('action', models.CharField(choices=[('write', 'Write'), ('create', 'Create'), ('delete', 'Delete'), ('hide', 'Hide')], max_length=6)),
                ('path', models.CharField(max_length=400)),
                ('content', models.TextField(blank=True, editable=False)),
                ('reasons', models.JSONField(default=list)),
                ('relies_on', models.JSONField(default=dict, editable=False)),
                ('outcome', models.CharField(choices=[('pending', 'Pending'), ('applied', 'Applied'), ('skipped', 'Skipped'), ('undone', 'Undone')], default='pending', max_length=7)),
                ('remark', models.CharField(blank=True, max_length=300)),
                ('version_before', models.PositiveIntegerField(editable=False, null=True)),
                ('version_after', models.PositiveIntegerField(editable=False, null=True)),
                ('consolidation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='memory.consolidation')),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('entry', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='consolidation_changes', to='memory.memoryentry')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'memory_consolidation_changes',
                'ordering': ['consolidation', 'position'],
            },
        ),
        migrations.CreateModel(
            name='ConsolidationChoice',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('applies_itself', models.BooleanField(default=False)),
                ('budget', models.DecimalField(decimal_places=2, default=Decimal('0.50'), max_digits=8)),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.AddIndex(
            model_name='consolidation',
            index=models.Index(fields=['agent', '-created_at'], name='consolidation_by_agent'),
        ),
        migrations.AddConstraint(
            model_name='consolidation',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['reviewing', 'waiting'])), fields=('agent', 'status'), name='consolidation_is_open_once_per_agent'),
        ),
        migrations.AddIndex(
            model_name='consolidationchange',
            index=django.contrib.postgres.indexes.GinIndex(fields=['relies_on'], name='consolidation_by_source'),
        ),
        migrations.AddConstraint(
            model_name='consolidationchange',
            constraint=models.UniqueConstraint(fields=('consolidation', 'path'), name='consolidation_changes_a_path_once'),
        ),
        migrations.AddConstraint(
            model_name='consolidationchoice',
            constraint=models.CheckConstraint(condition=models.Q(('budget__gte', 0)), name='consolidation_budget_is_not_negative'),
        ),
    ]
