import core.ids
import django.db.models.deletion
import django.db.models.functions.datetime
import encrypted_fields.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("orchestrator", "0001_workflows"),
    ]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveIntegerField()),
                ('branch', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('name', models.CharField(max_length=200)),
                ('nth', models.PositiveIntegerField(db_default=1, default=1)),
                ('kind', models.CharField(choices=[('do', 'Do'), ('sleep', 'Sleep'), ('wait_for_event', 'Wait For Event'), ('wait_for_approval', 'Wait For Approval'), ('run_session', 'Run Session'), ('spawn', 'Spawn'), ('rollback', 'Rollback')], default='do', max_length=20)),
                ('status', models.CharField(choices=[('running', 'Running'), ('retrying', 'Retrying'), ('waiting', 'Waiting'), ('complete', 'Complete'), ('errored', 'Errored')], default='running', max_length=10)),
                ('result', models.TextField(null=True)),
                ('error', models.JSONField(null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0, default=0)),
                ('retry_at', models.DateTimeField(null=True)),
                ('wake_at', models.DateTimeField(null=True)),
                ('detail', models.JSONField(null=True)),
                ('run_id', models.UUIDField(null=True)),
                ('child_id', models.UUIDField(null=True)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('tried_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'workflow_steps',
                'ordering': ['workflow', 'position'],
            },
        ),
        migrations.CreateModel(
            name='Terminal',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('opening', 'Opening'), ('open', 'Open'), ('closing', 'Closing'), ('closed', 'Closed')], db_default='opening', default='opening', max_length=8)),
                ('host', models.CharField(blank=True, default='', max_length=80)),
                ('host_pid', models.PositiveIntegerField(editable=False, null=True)),
                ('columns', models.PositiveSmallIntegerField(default=80)),
                ('rows', models.PositiveSmallIntegerField(default=24)),
                ('opened_at', models.DateTimeField(editable=False, null=True)),
                ('closed_at', models.DateTimeField(editable=False, null=True)),
                ('reason', models.CharField(blank=True, default='', max_length=300)),
                ('share_hash', models.CharField(blank=True, default='', editable=False, max_length=64)),
                ('share_expires', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'terminals',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='TriggerFiring',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=80, null=True)),
                ('outcome', models.CharField(choices=[('started', 'Started'), ('failed', 'Failed')], max_length=7)),
                ('missed', models.PositiveIntegerField(default=0)),
                ('workflow_id', models.UUIDField(null=True)),
                ('note', models.CharField(blank=True, default='', max_length=300)),
            ],
            options={
                'db_table': 'trigger_firings',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Workflow',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=200)),
                ('name', models.CharField(max_length=100)),
                ('version', models.PositiveIntegerField(db_default=1, default=1)),
                ('params', models.JSONField(db_default={}, default=dict)),
                ('generation', models.PositiveIntegerField(db_default=0, default=0)),
                ('key_id', models.UUIDField(editable=False, null=True)),
                ('priority', models.SmallIntegerField(db_default=0, default=0)),
                ('concurrency_key', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('concurrency_limit', models.PositiveIntegerField(blank=True, null=True)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('waiting', 'Waiting'), ('waiting_approval', 'Waiting Approval'), ('paused', 'Paused'), ('complete', 'Complete'), ('errored', 'Errored'), ('terminated', 'Terminated')], db_default='queued', default='queued', max_length=16)),
                ('epoch', models.BigIntegerField(db_default=0, default=0, editable=False)),
                ('lease_owner', models.UUIDField(editable=False, null=True)),
                ('lease_expires', models.DateTimeField(editable=False, null=True)),
                ('deadline', models.DateTimeField(editable=False, null=True)),
                ('wake_at', models.DateTimeField(editable=False, null=True)),
                ('open_position', models.PositiveIntegerField(editable=False, null=True)),
                ('queued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('claimed_at', models.DateTimeField(editable=False, null=True)),
                ('recoveries', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('is_dead', models.BooleanField(db_default=False, default=False, editable=False)),
                ('pause_requested', models.BooleanField(db_default=False, default=False, editable=False)),
                ('paused_at', models.DateTimeField(editable=False, null=True)),
                ('undoing', models.JSONField(editable=False, null=True)),
                ('progress', models.JSONField(editable=False, null=True)),
                ('started_at', models.DateTimeField(editable=False, null=True)),
                ('finished_at', models.DateTimeField(editable=False, null=True)),
                ('result', models.TextField(editable=False, null=True)),
                ('error', models.JSONField(editable=False, null=True)),
                ('last_seq', models.BigIntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                'db_table': 'workflows',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='WorkflowEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField()),
                ('type', models.CharField(choices=[('status', 'Status'), ('step', 'Step'), ('progress', 'Progress'), ('log', 'Log'), ('output', 'Output')], max_length=8)),
                ('payload', models.JSONField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'db_table': 'workflow_events',
                'ordering': ['workflow', 'seq'],
            },
        ),
        migrations.CreateModel(
            name='WorkflowSignal',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField()),
                ('type', models.CharField(max_length=100)),
                ('payload', models.TextField()),
                ('taken_by', models.PositiveIntegerField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'db_table': 'workflow_signals',
                'ordering': ['workflow', 'seq'],
            },
        ),
        migrations.CreateModel(
            name='WorkflowTrigger',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('kind', models.CharField(choices=[('schedule', 'Schedule'), ('webhook', 'Webhook')], max_length=8)),
                ('workflow', models.CharField(max_length=100)),
                ('params', models.JSONField(blank=True, default=dict)),
                ('interval_seconds', models.PositiveIntegerField(blank=True, null=True)),
                ('cron', models.CharField(blank=True, default='', max_length=120)),
                ('timezone', models.CharField(default='UTC', max_length=64)),
                ('next_at', models.DateTimeField(editable=False, null=True)),
                ('last_at', models.DateTimeField(editable=False, null=True)),
                ('paused_at', models.DateTimeField(editable=False, null=True)),
                ('token', models.CharField(editable=False, max_length=43, null=True, unique=True)),
                ('verify', models.CharField(choices=[('signature', 'Signature'), ('token', 'Token')], default='signature', max_length=9)),
                ('secret', encrypted_fields.fields.EncryptedTextField(editable=False, null=True)),
            ],
            options={
                'db_table': 'workflow_triggers',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='StepAttempt',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('status', models.CharField(choices=[('errored', 'Errored'), ('timed_out', 'Timed Out'), ('lost', 'Lost')], max_length=9)),
                ('error', models.JSONField(null=True)),
                ('started_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('step', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='failures', to='orchestrator.step')),
            ],
            options={
                'db_table': 'workflow_attempts',
                'ordering': ['step', 'number'],
            },
        ),
    ]
