"""Webhooks hear of every event and of the end of every run, in the commit that writes it."""

from django.db import migrations

LOG_WRITE = """
CREATE OR REPLACE FUNCTION log_write(s agent_sessions, events jsonb, run uuid, author uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO session_messages
    (id, workspace_id, session_id, seq, type, payload, run_id, dedupe_key, created_by_id, created_at)
  SELECT (e.event ->> 'id')::uuid, s.workspace_id, s.id, s.last_seq + e.nth, e.event ->> 'type',
         e.event -> 'payload', run, e.event ->> 'dedupe_key', author, clock_timestamp()
  FROM jsonb_array_elements(events) WITH ORDINALITY AS e(event, nth);
  IF EXISTS (SELECT 1 FROM webhooks w WHERE w.workspace_id = s.workspace_id AND w.active) THEN
    PERFORM webhook_announce(s.workspace_id, jsonb_agg(jsonb_build_object(
        'type', m.type, 'timestamp', webhook_moment(m.created_at),
        'data', jsonb_build_object('id', m.id, 'session_id', m.session_id, 'seq', m.seq,
          'type', m.type, 'payload', m.payload, 'run_id', m.run_id,
          'created_at', webhook_moment(m.created_at), 'processed_at', NULL,
          'processed_run_id', NULL)) ORDER BY m.seq))
      FROM session_messages m WHERE m.session_id = s.id AND m.seq > s.last_seq;
  END IF;
  RETURN s.last_seq + jsonb_array_length(events);
END $$;
"""
#: As it was before.
QUIET_LOG_WRITE = """
CREATE OR REPLACE FUNCTION log_write(s agent_sessions, events jsonb, run uuid, author uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO session_messages
    (id, workspace_id, session_id, seq, type, payload, run_id, dedupe_key, created_by_id, created_at)
  SELECT (e.event ->> 'id')::uuid, s.workspace_id, s.id, s.last_seq + e.nth, e.event ->> 'type',
         e.event -> 'payload', run, e.event ->> 'dedupe_key', author, clock_timestamp()
  FROM jsonb_array_elements(events) WITH ORDINALITY AS e(event, nth);
  RETURN s.last_seq + jsonb_array_length(events);
END $$;
"""
RUN_END = """
-- A run ended, whichever step ended it. The data is the run as REST shows it.
CREATE FUNCTION announce_run_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM webhooks w WHERE w.workspace_id = new.workspace_id AND w.active) THEN
    PERFORM webhook_announce(new.workspace_id, jsonb_build_array(jsonb_build_object(
      'type', CASE new.status WHEN 'completed' THEN 'run.completed'
                              WHEN 'cancelled' THEN 'run.cancelled' ELSE 'run.failed' END,
      'timestamp', webhook_moment(clock_timestamp()),
      'data', jsonb_build_object('id', new.id, 'session_id', new.session_id, 'status', new.status,
        'attempts', new.attempts, 'result', new.result, 'error', new.error, 'usage', new.usage,
        'stop_reason', new.stop_reason, 'on_busy', new.on_busy, 'priority', new.priority,
        'created_by', new.created_by_id, 'created_at', webhook_moment(new.created_at),
        'started_at', webhook_moment(new.started_at),
        'finished_at', webhook_moment(new.finished_at)))));
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER run_end_is_announced AFTER UPDATE OF status ON agent_run_queue FOR EACH ROW
  WHEN (old.status IS DISTINCT FROM new.status
        AND new.status IN ('completed', 'failed', 'cancelled', 'dead'))
  EXECUTE FUNCTION announce_run_end();
"""
NO_RUN_END = "DROP TRIGGER run_end_is_announced ON agent_run_queue; DROP FUNCTION announce_run_end;"


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0010_resources"), ("tenants", "0006_webhooks_inbox")]
    operations = [
        migrations.RunSQL(LOG_WRITE, QUIET_LOG_WRITE),
        migrations.RunSQL(RUN_END, NO_RUN_END),
    ]
