"""The ledger holds the calls of workflows too; the lanes of their sessions leave those alone."""

from django.db import migrations, models
from django.db.models import Q

STOP = """
CREATE OR REPLACE FUNCTION lane_stop(sid uuid, author uuid, interrupt jsonb, reason text, outcome text, error jsonb,
  OUT seq bigint, OUT stopped uuid)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; d session_drafts; events jsonb; was text;
BEGIN
  s := lane_lock(sid, NULL);
  was := s.status;
  IF interrupt IS NOT NULL THEN
    s.last_seq := log_write(s, jsonb_build_array(interrupt), NULL, author);
    UPDATE session_messages m SET processed_at = clock_timestamp() WHERE m.id = (interrupt ->> 'id')::uuid;
  END IF;
  seq := s.last_seq;
  SELECT q.id INTO stopped FROM agent_run_queue q WHERE q.session_id = sid
     AND (q.status = 'running' OR q.status = 'queued' AND (q.resumes OR q.claimed_seq IS NOT NULL))
   ORDER BY q.status = 'running' DESC LIMIT 1;
  IF was = 'terminated' OR was = 'idle' AND stopped IS NULL THEN
    UPDATE agent_sessions SET last_seq = s.last_seq, active_at = clock_timestamp() WHERE id = sid;
    RETURN;
  END IF;
  -- Words that are in the log already, before a call say, are no draft any more.
  SELECT * INTO d FROM session_drafts w WHERE w.session_id = sid AND w.epoch = s.lane_epoch
     AND NOT EXISTS (SELECT 1 FROM session_messages m WHERE m.id = w.event_id);
  events := CASE WHEN d.text <> '' THEN jsonb_build_array(jsonb_build_object('id', d.event_id,
      'type', 'agent.message',
      'payload', jsonb_build_object('text', d.text, 'interrupted', true))) ELSE '[]'::jsonb END;
  DELETE FROM session_drafts w WHERE w.session_id = sid;
  WITH closed AS (
    UPDATE tool_executions t SET error = 'Stopped before it ended.', finished_at = clock_timestamp(),
      state = CASE WHEN t.retries > 0 THEN 'unknown' ELSE 'cancelled' END
     WHERE t.session_id = sid AND t.state IN ('requested', 'awaiting_approval', 'running')
       AND t.workflow_id IS NULL
    RETURNING t.id, t.tool_use_id, t.name, t.state,
      round(extract(epoch FROM t.finished_at - t.started_at) * 1000)::bigint AS lasted)
  SELECT events || coalesce(jsonb_agg(new_event('agent.tool_result', jsonb_build_object(
      'tool_use_id', c.tool_use_id, 'name', c.name, 'state', c.state, 'output', NULL,
      'error', 'Stopped before it ended.', 'duration_ms', c.lasted)) ORDER BY c.id), '[]') INTO events FROM closed c;
  IF error IS NOT NULL THEN events := events || jsonb_build_array(new_event('session.error', error)); END IF;
  s.last_seq := log_write(s, events || jsonb_build_array(idle_event(reason, '[]')), stopped, NULL);
  UPDATE agent_run_queue q SET status = outcome, stop_reason = reason, finished_at = clock_timestamp(),
    error = lane_stop.error WHERE q.id = stopped;
  IF stopped IS NOT NULL THEN PERFORM lane_requeue_steered(s, stopped); END IF;
  UPDATE agent_sessions SET last_seq = s.last_seq, lane_epoch = s.lane_epoch + 1, status = 'idle',
    lease_owner = NULL, lease_expires = NULL, active_at = clock_timestamp() WHERE id = sid;
  PERFORM pg_notify('switchyard_stop', sid::text);
  PERFORM pg_notify('switchyard_wake', sid::text) WHERE EXISTS (
    SELECT 1 FROM agent_run_queue q WHERE q.session_id = sid AND q.status = 'queued');
END $$;
"""
GIVE_UP = """
CREATE OR REPLACE FUNCTION lane_give_up_calls(sid uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE events jsonb;
BEGIN
  WITH closed AS (
    UPDATE tool_executions t SET finished_at = clock_timestamp(),
      state = CASE WHEN t.state = 'requested' THEN 'cancelled'
                   WHEN t.read_only OR t.idempotent THEN 'error' ELSE 'unknown' END,
      error = CASE WHEN t.state = 'requested' THEN 'Not run: its run was lost.'
                   ELSE 'The worker was lost while this ran, again and again.' END
     WHERE t.session_id = sid AND t.workflow_id IS NULL AND (t.state = 'requested'
           OR t.state = 'running' AND t.ownership <> 'custom' AND NOT t.parked)
    RETURNING t.id, t.tool_use_id, t.name, t.state, t.error)
  SELECT coalesce(jsonb_agg(new_event('agent.tool_result', jsonb_build_object(
      'tool_use_id', c.tool_use_id, 'name', c.name, 'state', c.state, 'output', NULL,
      'error', c.error, 'duration_ms', NULL)) ORDER BY c.id), '[]') INTO events FROM closed c;
  RETURN events;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0023_begun_runs")]

    operations = [
        migrations.AddField(
            "toolexecution",
            "workflow_id",
            models.UUIDField(blank=True, editable=False, null=True),
        ),
        migrations.AlterField(
            "toolexecution",
            "run",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=models.CASCADE,
                related_name="executions",
                to="sessions_app.run",
            ),
        ),
        migrations.AddIndex(
            "toolexecution",
            models.Index(
                fields=["workflow_id"],
                condition=Q(workflow_id__isnull=False),
                name="execution_by_workflow",
            ),
        ),
        migrations.AddConstraint(
            "toolexecution",
            models.CheckConstraint(
                condition=Q(run__isnull=False, workflow_id=None)
                | Q(run=None, workflow_id__isnull=False),
                name="execution_is_of_a_run_or_a_workflow",
            ),
        ),
        migrations.RunSQL([STOP, GIVE_UP], migrations.RunSQL.noop),
    ]
