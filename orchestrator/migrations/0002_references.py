import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("orchestrator", "0002_gates_and_hooks"),
        ("orchestrator", "0003_terminals"),
        ("orchestrator", "0004_triggers"),
        ("orchestrator", "0005_key_of_workflow"),
        ("orchestrator", "0006_branches"),
        ("orchestrator", "0007_time_of_questions"),
        ("orchestrator", "0008_terminals_of_tasks"),
        ("orchestrator", "0009_living_workflows"),
        ("orchestrator", "0010_restarts_begin_waits_anew"),
    ]

    initial = True

    dependencies = [
        ('agents', '0002_references'),
        ('orchestrator', '0001_schema'),
        ('sessions_app', '0001_schema'),
        ('tenants', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='terminal',
            name='closed_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='terminal',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='terminal',
            name='session',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='terminals', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='terminal',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='triggerfiring',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='triggerfiring',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='workflow',
            name='agent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='workflow',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='workflow',
            name='parent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='orchestrator.workflow'),
        ),
        migrations.AddField(
            model_name='workflow',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='terminal',
            name='workflow',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='terminals', to='orchestrator.workflow'),
        ),
        migrations.AddField(
            model_name='step',
            name='workflow',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='orchestrator.workflow'),
        ),
        migrations.AddField(
            model_name='workflowevent',
            name='workflow',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='orchestrator.workflow'),
        ),
        migrations.AddField(
            model_name='workflowsignal',
            name='created_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='workflowsignal',
            name='workflow',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='signals', to='orchestrator.workflow'),
        ),
        migrations.AddField(
            model_name='workflowtrigger',
            name='agent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='workflowtrigger',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='workflowtrigger',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='triggerfiring',
            name='trigger',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='firings', to='orchestrator.workflowtrigger'),
        ),
        migrations.AddConstraint(
            model_name='stepattempt',
            constraint=models.UniqueConstraint(fields=('step', 'number'), name='attempt_is_counted_once'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(fields=['workspace', '-created_at'], name='workflow_by_age'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(fields=['workspace', 'claimed_at'], name='workflow_by_turn_taken'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('status', 'queued')), fields=['workspace', '-priority', 'queued_at', 'id'], name='workflow_by_turn'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('status', 'running')), fields=['workspace'], name='workflow_in_progress'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('status__in', ['waiting', 'waiting_approval'])), fields=['wake_at'], name='workflow_by_due_time'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('status__in', ['queued', 'running', 'waiting', 'waiting_approval', 'paused'])), fields=['status'], name='workflow_is_alive'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='workflow_by_end'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.UniqueConstraint(fields=('workspace', 'key'), name='workflow_key_is_unique_in_its_workspace'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'running'), _negated=True), ('lease_owner__isnull', False), _connector='OR'), name='workflow_in_progress_has_a_holder'),
        ),
        migrations.AddIndex(
            model_name='terminal',
            index=models.Index(fields=['workspace', '-created_at'], name='terminal_by_age'),
        ),
        migrations.AddIndex(
            model_name='terminal',
            index=models.Index(condition=models.Q(('status', 'closed'), _negated=True), fields=['host'], name='terminal_living'),
        ),
        migrations.AddConstraint(
            model_name='terminal',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'closed'), _negated=True), ('closed_at__isnull', False), _connector='OR'), name='terminal_that_is_over_says_when'),
        ),
        migrations.AddConstraint(
            model_name='terminal',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'open'), _negated=True), ('host_pid__isnull', False), _connector='OR'), name='terminal_that_is_open_has_a_host'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(condition=models.Q(('run_id__isnull', False)), fields=['run_id'], name='step_by_run'),
        ),
        migrations.AddIndex(
            model_name='step',
            index=models.Index(condition=models.Q(('child_id__isnull', False)), fields=['child_id'], name='step_by_child'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.UniqueConstraint(fields=('workflow', 'position'), name='step_has_a_place_of_its_own'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(('result', None), ('status', 'complete'), _connector='OR'), name='step_with_a_result_is_complete'),
        ),
        migrations.AddConstraint(
            model_name='workflowevent',
            constraint=models.UniqueConstraint(fields=('workflow', 'seq'), name='workflow_event_seq_is_unique'),
        ),
        migrations.AddIndex(
            model_name='workflowsignal',
            index=models.Index(condition=models.Q(('taken_by', None)), fields=['workflow', 'type', 'seq'], name='signal_by_turn'),
        ),
        migrations.AddConstraint(
            model_name='workflowsignal',
            constraint=models.UniqueConstraint(fields=('workflow', 'seq'), name='signal_came_once'),
        ),
        migrations.AddIndex(
            model_name='workflowtrigger',
            index=models.Index(condition=models.Q(('paused_at', None)), fields=['next_at'], name='trigger_due'),
        ),
        migrations.AddConstraint(
            model_name='workflowtrigger',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'webhook'), _negated=True), models.Q(('secret__isnull', False), ('token__isnull', False)), _connector='OR'), name='trigger_by_webhook_has_a_secret'),
        ),
        migrations.AddConstraint(
            model_name='workflowtrigger',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'schedule'), _negated=True), models.Q(('cron', ''), _negated=True), ('interval_seconds__isnull', False), _connector='OR'), name='trigger_by_schedule_says_when'),
        ),
        migrations.AddIndex(
            model_name='triggerfiring',
            index=models.Index(fields=['created_at'], name='trigger_firing_by_age'),
        ),
        migrations.AddConstraint(
            model_name='triggerfiring',
            constraint=models.UniqueConstraint(fields=('trigger', 'key'), name='trigger_fires_once_per_key'),
        ),
        migrations.RunSQL(
            [
                "ALTER TABLE workflows SET (fillfactor = 50)",
                "ALTER TABLE workflow_steps SET (fillfactor = 70)",
                "ALTER TABLE workflow_attempts SET (fillfactor = 70)",
            ],
            migrations.RunSQL.noop,
        ),
    ]
