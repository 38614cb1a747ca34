"""Approvals as rows of their own; the database sees to it that each is answered once and none is orphaned."""

import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.ids
from django.conf import settings
from django.db import migrations, models

ANSWERED_ONCE = """
CREATE FUNCTION refuse_approval_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE kept approvals := new;
BEGIN
  IF old.status = 'pending' THEN RETURN new; END IF;
  -- A person who is deleted is forgotten; their name at that time stays.
  IF new.resolved_by_id IS NULL THEN kept.resolved_by_id := old.resolved_by_id; END IF;
  IF new.created_by_id IS NULL THEN kept.created_by_id := old.created_by_id; END IF;
  IF kept IS DISTINCT FROM old THEN RAISE EXCEPTION 'approvals are answered once'; END IF;
  RETURN new;
END $$;
CREATE TRIGGER approval_is_answered_once BEFORE UPDATE ON approvals
  FOR EACH ROW EXECUTE FUNCTION refuse_approval_change();
"""
#: Whoever ends a waiting call, by whichever way, ends the question about it in the same commit.
FOLLOWS_ITS_CALL = """
CREATE FUNCTION cancel_approval_of_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approvals a SET status = 'cancelled', resolved_at = clock_timestamp()
   WHERE a.execution_id = new.id AND a.status = 'pending';
  RETURN NULL;
END $$;
CREATE TRIGGER approval_follows_its_call AFTER UPDATE OF state ON tool_executions
  FOR EACH ROW WHEN (old.state = 'awaiting_approval' AND new.state <> 'awaiting_approval')
  EXECUTE FUNCTION cancel_approval_of_call();
"""
#: Calls that wait already get the question that they wait for.
WAITING = """
INSERT INTO approvals (id, workspace_id, subject, subject_id, session_id, execution_id, agent_id, title, input,
                       reason, status, scope, rule, note, resolved_name, expires_at, created_at)
SELECT new_id(), t.workspace_id, 'tool', t.id, t.session_id, t.id, s.agent_id, 'Use ' || t.name, t.input,
       t.decided_by, 'pending', '', '', '', '', clock_timestamp() + interval '7 days', t.created_at
  FROM tool_executions t JOIN agent_sessions s ON s.id = t.session_id WHERE t.state = 'awaiting_approval'
"""
BACKWARD = "DROP FUNCTION refuse_approval_change() CASCADE; DROP FUNCTION cancel_approval_of_call() CASCADE"


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0005_fewer_indexes'),
        ('sessions_app', '0012_drafts_end_with_their_event'),
        ('tenants', '0006_webhooks_inbox'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='toolexecution',
            name='retries',
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name='Approval',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=tenants.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('subject', models.CharField(choices=[('tool', 'Tool'), ('workflow', 'Workflow')], default='tool', max_length=8)),
                ('subject_id', models.UUIDField()),
                ('title', models.CharField(max_length=300)),
                ('input', models.JSONField(default=dict)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('allowed', 'Allowed'), ('denied', 'Denied'), ('expired', 'Expired'), ('cancelled', 'Cancelled')], default='pending', max_length=9)),
                ('scope', models.CharField(blank=True, choices=[('once', 'Once'), ('session', 'Session'), ('always', 'Always')], max_length=7)),
                ('rule', models.TextField(blank=True)),
                ('edited_input', models.JSONField(null=True)),
                ('note', models.TextField(blank=True)),
                ('expires_at', models.DateTimeField()),
                ('resolved_name', models.CharField(blank=True, max_length=254)),
                ('resolved_at', models.DateTimeField(null=True)),
                ('agent', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('execution', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approval', to='sessions_app.toolexecution')),
                ('resolved_by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('session', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='sessions_app.session')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'approvals',
                'ordering': ['-created_at'],
                'indexes': [models.Index(condition=models.Q(('status', 'pending')), fields=['workspace', 'created_at'], name='approval_pending'), models.Index(condition=models.Q(('status', 'pending')), fields=['expires_at'], name='approval_by_expiry'), models.Index(condition=models.Q(('scope', 'session'), ('status', 'allowed')), fields=['session'], name='approval_held_in_session'), models.Index(fields=['session', '-created_at'], name='approval_by_session'), models.Index(fields=['workspace', '-created_at', '-id'], name='approval_by_workspace')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('resolved_at', None), ('status', 'pending')), models.Q(models.Q(('status', 'pending'), _negated=True), ('resolved_at__isnull', False)), _connector='OR'), name='approval_is_resolved_at_a_time'), models.CheckConstraint(condition=models.Q(models.Q(('execution__isnull', False), ('subject', 'tool')), models.Q(models.Q(('subject', 'tool'), _negated=True), ('execution', None)), _connector='OR'), name='approval_of_a_tool_has_its_call'), models.CheckConstraint(condition=models.Q(('scope', ''), ('status__in', ['allowed', 'denied']), _connector='OR'), name='approval_scope_is_an_answer')],
            },
        ),
        migrations.RunSQL(WAITING, migrations.RunSQL.noop),
        migrations.RunSQL(ANSWERED_ONCE + FOLLOWS_ITS_CALL, BACKWARD),
    ]
