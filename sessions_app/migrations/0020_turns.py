"""Runs of one turn know each other: who pays, which reply is whose, how far a message went.

What a session used is added when a call is settled, so that a killed run hides nothing.
"""

from pathlib import Path

from django.db import migrations

TURNS = (Path(__file__).parent.parent / "sql" / "turns.sql").read_text()
FOLLOW = """
CREATE OR REPLACE FUNCTION spawn_follows_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE subagent_spawns w SET
    status = CASE WHEN new.status = 'completed' AND new.stop_reason = 'end_turn' THEN 'completed'
                  WHEN new.status = 'cancelled' THEN 'cancelled' ELSE 'failed' END,
    stop_reason = new.stop_reason, result = new.result, error = new.error,
    finished_at = clock_timestamp()
   WHERE w.child_session_id = new.session_id AND w.status = 'running'
     AND (w.kind = 'spawn' OR w.child_run_id = turn_root(new.id));
  RETURN NULL;
END $$;
"""
NEXT = """
CREATE OR REPLACE FUNCTION lane_next(s agent_sessions, rest text, owner uuid, lease double precision,
  deadline double precision, OUT run uuid, OUT epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE q agent_run_queue;
BEGIN
  SELECT * INTO q FROM agent_run_queue w
   WHERE w.session_id = s.id AND w.status = 'queued'
     AND (w.not_before IS NULL OR w.not_before <= clock_timestamp())
     AND (rest <> 'requires_action' OR w.resumes)
   ORDER BY w.resumes DESC, w.priority DESC, w.rank, w.id LIMIT 1;
  IF NOT FOUND OR owner IS NULL THEN
    UPDATE agent_sessions SET last_seq = s.last_seq, lane_epoch = s.lane_epoch, status = rest,
      lease_owner = NULL, lease_expires = NULL, active_at = clock_timestamp() WHERE id = s.id;
    RETURN;
  END IF;
  run := q.id;
  epoch := s.lane_epoch + 1;
  UPDATE agent_run_queue w SET status = 'running', attempts = w.attempts + 1, epoch = lane_next.epoch,
    claimed_seq = s.last_seq + 1, not_before = NULL,
    started_at = coalesce(w.started_at, clock_timestamp()),
    deadline = clock_timestamp() + make_interval(secs => lane_next.deadline)
   WHERE w.id = run;
  UPDATE session_messages m SET processed_at = clock_timestamp(), processed_run_id = run
   WHERE m.session_id = s.id AND m.seq = ANY (q.message_seqs) AND m.processed_at IS NULL;
  s.last_seq := log_write(s, jsonb_build_array(status_event(rest, 'running',
    CASE WHEN q.attempts > 0 THEN 'recovered' WHEN q.resumes THEN 'resumed'
         WHEN q.purpose = 'compact' THEN 'compaction' ELSE 'message' END)),
    run, NULL);
  UPDATE agent_sessions SET last_seq = s.last_seq, lane_epoch = lane_next.epoch, status = 'running',
    lease_owner = owner, lease_expires = clock_timestamp() + make_interval(secs => lease),
    active_at = clock_timestamp() WHERE id = s.id;
END $$;
"""
FINISH = """
CREATE OR REPLACE FUNCTION lane_finish(sid uuid, held_epoch bigint, rid uuid, events jsonb, outcome text, reason text,
  result jsonb, error jsonb, usage jsonb, policy jsonb, owner uuid, lease double precision, deadline double precision,
  OUT goes_on boolean, OUT run uuid, OUT epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; blocking jsonb := '[]'; rest text := 'idle';
BEGIN
  s := lane_lock(sid, held_epoch);
  -- A repetition after a lost connection finds the run ended: it was written the first time.
  IF s.status <> 'running' THEN RAISE EXCEPTION 'the run has ended' USING errcode = 'SY412'; END IF;
  s.last_seq := log_write(s, events, rid, NULL);
  DELETE FROM session_drafts d WHERE d.session_id = sid;
  goes_on := false;
  IF reason = 'requires_action' THEN
    blocking := lane_blocking(sid);
    rest := 'requires_action';
    goes_on := blocking = '[]';
  ELSIF outcome = 'completed' AND reason = 'end_turn' THEN
    goes_on := lane_steered(s, rid) > 0;
  END IF;
  IF goes_on THEN
    UPDATE agent_sessions SET last_seq = s.last_seq, active_at = clock_timestamp() WHERE id = sid;
    RETURN;
  END IF;
  s.last_seq := log_write(s, jsonb_build_array(idle_event(reason, blocking)), rid, NULL);
  UPDATE agent_run_queue q SET status = outcome, stop_reason = reason, result = lane_finish.result,
    error = lane_finish.error, usage = lane_finish.usage, policy = lane_finish.policy,
    finished_at = clock_timestamp()
   WHERE q.id = rid;
  PERFORM lane_requeue_steered(s, rid);
  SELECT n.run, n.epoch INTO run, epoch FROM lane_next(s, rest, owner, lease, deadline) n;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0019_stopped_calls_say_how_long"), ("tenants", "0007_sandbox_minutes")]
    operations = [
        migrations.RunSQL(TURNS, migrations.RunSQL.noop),
        migrations.RunSQL(FOLLOW, migrations.RunSQL.noop),
        migrations.RunSQL(NEXT, migrations.RunSQL.noop),
        migrations.RunSQL(FINISH, migrations.RunSQL.noop),
    ]
