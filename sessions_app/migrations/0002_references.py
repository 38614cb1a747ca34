import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.fields.json
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("sessions_app", "0002_initial"),
        ("sessions_app", "0003_lanes"),
        ("sessions_app", "0004_erasable"),
        ("sessions_app", "0005_fewer_indexes"),
        ("sessions_app", "0006_run_key"),
        ("sessions_app", "0007_subagents"),
        ("sessions_app", "0008_spawns_follow_runs"),
        ("sessions_app", "0009_schedules"),
        ("sessions_app", "0010_resources"),
        ("sessions_app", "0011_webhook_events"),
        ("sessions_app", "0012_drafts_end_with_their_event"),
        ("sessions_app", "0013_approvals"),
        ("sessions_app", "0014_approvals_are_announced"),
        ("sessions_app", "0015_snapshots"),
        ("sessions_app", "0016_saved_views"),
        ("sessions_app", "0017_about_an_agent"),
        ("sessions_app", "0018_outcomes"),
        ("sessions_app", "0019_stopped_calls_say_how_long"),
        ("sessions_app", "0020_turns"),
        ("sessions_app", "0021_terminal_events"),
        ("sessions_app", "0022_strangers_words"),
        ("sessions_app", "0023_begun_runs"),
        ("sessions_app", "0024_calls_of_workflows"),
        ("sessions_app", "0025_runs_are_alone"),
    ]

    initial = True

    dependencies = [
        ('agents', '0002_references'),
        ('sessions_app', '0001_schema'),
        ('tenants', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='approval',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='approval',
            name='resolved_by',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='approval',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='contextsnapshot',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='contextsnapshot',
            name='previous',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.contextsnapshot'),
        ),
        migrations.AddField(
            model_name='contextsnapshot',
            name='undone_by',
            field=models.ForeignKey(db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='contextsnapshot',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('session', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='sessions_app.session')),
                ('event_id', models.UUIDField()),
                ('run_id', models.UUIDField()),
                ('epoch', models.BigIntegerField()),
                ('text', models.TextField()),
            ],
            options={
                'db_table': 'session_drafts',
            },
        ),
        migrations.AddField(
            model_name='session',
            name='about',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='session',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.RESTRICT, related_name='sessions', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='session',
            name='agent_version',
            field=models.ForeignKey(on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='agents.agentversion'),
        ),
        migrations.AddField(
            model_name='session',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='session',
            name='environment',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='agents.environment'),
        ),
        migrations.AddField(
            model_name='session',
            name='parent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='children', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='session',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='contextsnapshot',
            name='session',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='snapshots', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='approval',
            name='session',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='firing',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='firing',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='resourceattachment',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='resourceattachment',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='resources', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='resourceattachment',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='run',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='run',
            name='session',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='run',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='contextsnapshot',
            name='run',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='sessions_app.run'),
        ),
        migrations.AddField(
            model_name='savedview',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='savedview',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='savedview',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='schedule',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='schedules', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='schedule',
            name='asked_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='asked_schedules', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='schedule',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='schedule',
            name='session',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='schedules', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='schedule',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='firing',
            name='schedule',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='firings', to='sessions_app.schedule'),
        ),
        migrations.AddField(
            model_name='sessionevent',
            name='created_by',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='sessionevent',
            name='processed_run',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='sessions_app.run'),
        ),
        migrations.AddField(
            model_name='sessionevent',
            name='run',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='sessions_app.run'),
        ),
        migrations.AddField(
            model_name='sessionevent',
            name='session',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='sessionevent',
            name='workspace',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='subagentspawn',
            name='child_session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='spawned_by', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='subagentspawn',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='subagentspawn',
            name='parent_session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='spawns', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='subagentspawn',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='toolexecution',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='toolexecution',
            name='run',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='executions', to='sessions_app.run'),
        ),
        migrations.AddField(
            model_name='toolexecution',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='executions', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='toolexecution',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='approval',
            name='execution',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approval', to='sessions_app.toolexecution'),
        ),
        migrations.AddField(
            model_name='tooloutput',
            name='session',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.session'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=django.contrib.postgres.indexes.GinIndex(fields=['metadata'], name='session_by_metadata'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(fields=('agent', 'session_key'), name='session_key_is_unique_in_its_agent'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.CheckConstraint(condition=models.Q(('snapshot_seq__lte', models.F('last_seq'))), name='session_snapshot_is_within_log'),
        ),
        migrations.AddConstraint(
            model_name='resourceattachment',
            constraint=models.UniqueConstraint(fields=('session', 'mount_path'), name='resource_has_its_own_path'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('status', 'queued')), fields=['session', '-resumes', '-priority', 'rank', 'id'], name='run_by_turn'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['session', '-created_at'], name='run_by_session'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('status', 'queued')), fields=['not_before'], name='run_by_due_time'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('status__in', ['failed', 'dead'])), fields=['session'], name='run_failed_by_session'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('session',), name='run_is_alone_in_its_lane'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'running'), _negated=True), ('epoch__isnull', False), _connector='OR'), name='run_in_progress_has_an_epoch'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('finished_at', None), ('finished_at__gte', models.F('created_at')), _connector='OR'), name='run_ends_after_it_begins'),
        ),
        migrations.AddIndex(
            model_name='contextsnapshot',
            index=models.Index(fields=['session', '-id'], name='snapshot_by_session'),
        ),
        migrations.AddIndex(
            model_name='contextsnapshot',
            index=models.Index(condition=models.Q(('undone_at', None)), fields=['session', '-id'], name='snapshot_active'),
        ),
        migrations.AddConstraint(
            model_name='contextsnapshot',
            constraint=models.CheckConstraint(condition=models.Q(('first_seq__gte', 1), ('last_seq__gte', models.F('first_seq'))), name='snapshot_stands_for_something'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('workspace', 'person', 'name'), name='saved_view_is_named_once'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(condition=models.Q(('paused_at', None)), fields=['next_at'], name='schedule_due'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'interval'), _negated=True), ('interval_seconds__isnull', False), _connector='OR'), name='schedule_of_an_interval_has_one'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'cron'), _negated=True), models.Q(('cron', ''), _negated=True), _connector='OR'), name='schedule_by_cron_says_when'),
        ),
        migrations.AddConstraint(
            model_name='firing',
            constraint=models.UniqueConstraint(fields=('schedule', 'due_at'), name='firing_is_one_per_due_time'),
        ),
        migrations.AddIndex(
            model_name='sessionevent',
            index=django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector(django.db.models.fields.json.KeyTextTransform('text', 'payload'), config='english'), condition=models.Q(('type__in', ['user.message', 'agent.message'])), name='event_by_words'),
        ),
        migrations.AddIndex(
            model_name='sessionevent',
            index=models.Index(condition=models.Q(('type', 'session.outcome_judged')), fields=['session', 'seq'], name='event_by_verdict'),
        ),
        migrations.AddConstraint(
            model_name='sessionevent',
            constraint=models.UniqueConstraint(fields=('session', 'seq'), name='event_seq_is_unique'),
        ),
        migrations.AddConstraint(
            model_name='sessionevent',
            constraint=models.UniqueConstraint(condition=models.Q(('dedupe_key__isnull', False)), fields=('session', 'dedupe_key'), name='event_dedupe_key_is_unique'),
        ),
        migrations.AddConstraint(
            model_name='sessionevent',
            constraint=models.CheckConstraint(condition=models.Q(('seq__gte', 1)), name='event_seq_starts_at_one'),
        ),
        migrations.AddConstraint(
            model_name='sessionevent',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('processed_at', None), ('processed_run', None)), ('processed_at__isnull', False), _connector='OR'), name='event_is_taken_at_a_time'),
        ),
        migrations.AddIndex(
            model_name='subagentspawn',
            index=models.Index(condition=models.Q(('status', 'running')), fields=['child_session'], name='spawn_under_way'),
        ),
        migrations.AddIndex(
            model_name='subagentspawn',
            index=models.Index(condition=models.Q(('delivered_at', None), ('finished_at__isnull', False)), fields=['finished_at'], name='spawn_to_deliver'),
        ),
        migrations.AddConstraint(
            model_name='subagentspawn',
            constraint=models.UniqueConstraint(fields=('parent_session', 'tool_use_id'), name='spawn_is_one_per_call'),
        ),
        migrations.AddConstraint(
            model_name='subagentspawn',
            constraint=models.CheckConstraint(condition=models.Q(('status', 'running'), ('finished_at__isnull', False), _connector='OR'), name='spawn_that_ended_says_when'),
        ),
        migrations.AddConstraint(
            model_name='subagentspawn',
            constraint=models.CheckConstraint(condition=models.Q(('delivered_at', None), ('finished_at__isnull', False), _connector='OR'), name='spawn_is_delivered_after_it_ended'),
        ),
        migrations.AddIndex(
            model_name='toolexecution',
            index=models.Index(condition=models.Q(('state__in', ['requested', 'awaiting_approval', 'running'])), fields=['session'], name='execution_open_by_session'),
        ),
        migrations.AddIndex(
            model_name='toolexecution',
            index=models.Index(fields=['workspace', '-created_at'], name='execution_by_workspace'),
        ),
        migrations.AddIndex(
            model_name='toolexecution',
            index=models.Index(condition=models.Q(('state__in', ['error', 'unknown'])), fields=['session'], name='execution_failed_by_session'),
        ),
        migrations.AddIndex(
            model_name='toolexecution',
            index=models.Index(condition=models.Q(('workflow_id__isnull', False)), fields=['workflow_id'], name='execution_by_workflow'),
        ),
        migrations.AddConstraint(
            model_name='toolexecution',
            constraint=models.UniqueConstraint(fields=('session', 'tool_use_id'), name='execution_is_one_per_call'),
        ),
        migrations.AddConstraint(
            model_name='toolexecution',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('run__isnull', False), ('workflow_id', None)), models.Q(('run', None), ('workflow_id__isnull', False)), _connector='OR'), name='execution_is_of_a_run_or_a_workflow'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['workspace', 'created_at'], name='approval_pending'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['expires_at'], name='approval_by_expiry'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(condition=models.Q(('scope', 'session'), ('status', 'allowed')), fields=['session'], name='approval_held_in_session'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(fields=['session', '-created_at'], name='approval_by_session'),
        ),
        migrations.AddIndex(
            model_name='approval',
            index=models.Index(fields=['workspace', '-created_at', '-id'], name='approval_by_workspace'),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('resolved_at', None), ('status', 'pending')), models.Q(models.Q(('status', 'pending'), _negated=True), ('resolved_at__isnull', False)), _connector='OR'), name='approval_is_resolved_at_a_time'),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('execution__isnull', False), ('subject', 'tool')), models.Q(models.Q(('subject', 'tool'), _negated=True), ('execution', None)), _connector='OR'), name='approval_of_a_tool_has_its_call'),
        ),
        migrations.AddConstraint(
            model_name='approval',
            constraint=models.CheckConstraint(condition=models.Q(('scope', ''), ('status__in', ['allowed', 'denied']), _connector='OR'), name='approval_scope_is_an_answer'),
        ),
        migrations.RunSQL(
            [
                "ALTER TABLE session_drafts SET UNLOGGED",
                "ALTER TABLE session_tool_outputs SET UNLOGGED",
                "ALTER TABLE agent_sessions SET (fillfactor = 50)",
                "ALTER TABLE agent_run_queue SET (fillfactor = 70)",
            ],
            migrations.RunSQL.noop,
        ),
    ]
