"""A run that was begun keeps its lane until it is over, and one that is given up leaves nothing open.

A message knows with which key it was sent, and a sub-agent's row follows the turn of its task alone.
"""

from django.db import migrations, models

REFUSE = """
CREATE OR REPLACE FUNCTION refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF tg_op = 'DELETE' THEN
    -- The erasure of a whole workspace says so for its own transaction.
    IF current_setting('switchyard.erasing', true) = old.workspace_id::text THEN RETURN old; END IF;
    RAISE EXCEPTION 'events are append-only';
  END IF;
  IF old.processed_at IS NOT NULL OR new.processed_at IS NULL
     OR (new.id, new.workspace_id, new.session_id, new.seq, new.type, new.payload, new.run_id,
         new.dedupe_key, new.created_by_id, new.key_id, new.created_at)
        IS DISTINCT FROM
        (old.id, old.workspace_id, old.session_id, old.seq, old.type, old.payload, old.run_id,
         old.dedupe_key, old.created_by_id, old.key_id, old.created_at) THEN
    RAISE EXCEPTION 'events are append-only';
  END IF;
  RETURN new;
END $$;
"""
WRITE = """
CREATE OR REPLACE FUNCTION log_write(s agent_sessions, events jsonb, run uuid, author uuid) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO session_messages
    (id, workspace_id, session_id, seq, type, payload, run_id, dedupe_key, created_by_id, key_id,
     created_at)
  SELECT (e.event ->> 'id')::uuid, s.workspace_id, s.id, s.last_seq + e.nth, e.event ->> 'type',
         e.event -> 'payload', run, e.event ->> 'dedupe_key', author,
         (e.event ->> 'key_id')::uuid, clock_timestamp()
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
NEXT = """
CREATE OR REPLACE FUNCTION lane_next(s agent_sessions, rest text, owner uuid, lease double precision,
  deadline double precision, OUT run uuid, OUT epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE q agent_run_queue;
BEGIN
  SELECT * INTO q FROM agent_run_queue w
   WHERE w.session_id = s.id AND w.status = 'queued' AND (rest <> 'requires_action' OR w.resumes)
   ORDER BY w.claimed_seq IS NULL, w.resumes DESC, w.priority DESC, w.rank, w.id LIMIT 1;
  IF NOT FOUND OR owner IS NULL OR q.not_before > clock_timestamp() THEN
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
REQUEUE = """
CREATE OR REPLACE FUNCTION lane_requeue_steered(s agent_sessions, rid uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO agent_run_queue
    (id, workspace_id, session_id, created_by_id, key_id, on_busy, rank, message_seqs, created_at)
  SELECT new_id(), s.workspace_id, s.id, m.created_by_id, m.key_id, 'followup', m.seq, ARRAY[m.seq],
         clock_timestamp()
    FROM session_messages m JOIN agent_run_queue q ON q.id = rid
   WHERE m.session_id = s.id AND m.seq = ANY (q.message_seqs) AND m.processed_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM session_messages w WHERE w.session_id = s.id AND w.seq > m.seq
          AND w.type = 'user.message_withdrawn' AND (w.payload ->> 'seq')::bigint = m.seq);
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
     WHERE t.session_id = sid AND (t.state = 'requested'
           OR t.state = 'running' AND t.ownership <> 'custom' AND NOT t.parked)
    RETURNING t.id, t.tool_use_id, t.name, t.state, t.error)
  SELECT coalesce(jsonb_agg(new_event('agent.tool_result', jsonb_build_object(
      'tool_use_id', c.tool_use_id, 'name', c.name, 'state', c.state, 'output', NULL,
      'error', c.error, 'duration_ms', NULL)) ORDER BY c.id), '[]') INTO events FROM closed c;
  RETURN events;
END $$;
"""
HAND_BACK = """
CREATE OR REPLACE FUNCTION lane_hand_back(s agent_sessions, rid uuid, lost boolean, delay double precision,
  max_losses int, reason text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE q agent_run_queue; progressed boolean; becomes text := 'queued'; rest text := 'rescheduling';
  events jsonb;
BEGIN
  SELECT * INTO q FROM agent_run_queue w WHERE w.id = rid;
  progressed := EXISTS (SELECT 1 FROM session_messages m WHERE m.session_id = s.id
    AND m.seq > q.claimed_seq AND m.run_id = rid AND m.type LIKE 'agent.%');
  q.losses := CASE WHEN NOT lost OR progressed THEN 0 ELSE q.losses + 1 END;
  IF q.losses >= max_losses OR q.attempts >= 20 * max_losses THEN becomes := 'dead'; rest := 'idle'; END IF;
  UPDATE agent_run_queue w SET status = becomes, losses = q.losses, epoch = NULL,
    not_before = CASE WHEN becomes = 'queued' AND delay > 0
                      THEN clock_timestamp() + make_interval(secs => delay) END,
    stop_reason = CASE WHEN becomes = 'dead' THEN 'retries_exhausted' ELSE '' END,
    error = CASE WHEN becomes = 'dead' THEN jsonb_build_object('code', 'run_dead', 'message', reason)
                 ELSE w.error END,
    finished_at = CASE WHEN becomes = 'dead' THEN clock_timestamp() END
   WHERE w.id = rid;
  IF becomes = 'dead' THEN
    events := lane_give_up_calls(s.id) || jsonb_build_array(
      new_event('session.error', jsonb_build_object('code', 'run_dead', 'retryable', true, 'run_id', rid,
        'message', 'This run was lost again and again without progress: ' || reason)),
      idle_event('retries_exhausted', '[]'));
    PERFORM lane_requeue_steered(s, rid);
  ELSE
    events := jsonb_build_array(status_event('running', 'rescheduling', reason));
  END IF;
  UPDATE agent_sessions SET last_seq = log_write(s, events, rid, NULL), lane_epoch = s.lane_epoch + 1,
    status = rest, lease_owner = NULL, lease_expires = NULL, active_at = clock_timestamp()
   WHERE id = s.id;
  DELETE FROM session_drafts d WHERE d.session_id = s.id;
  PERFORM pg_notify('switchyard_wake', s.id::text) WHERE delay <= 0;
  RETURN becomes;
END $$;
"""
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
FOLLOW = """
CREATE OR REPLACE FUNCTION spawn_follows_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE subagent_spawns w SET
    status = CASE WHEN new.status = 'completed' AND new.stop_reason = 'end_turn' THEN 'completed'
                  WHEN new.status = 'cancelled' THEN 'cancelled' ELSE 'failed' END,
    stop_reason = new.stop_reason, result = new.result, error = new.error,
    finished_at = clock_timestamp()
   WHERE w.child_session_id = new.session_id AND w.status = 'running'
     AND w.child_run_id = turn_root(new.id);
  RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0022_strangers_words")]
    operations = [
        migrations.AddField(
            model_name="sessionevent",
            name="key_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        *(
            migrations.RunSQL(function, migrations.RunSQL.noop)
            for function in (REFUSE, WRITE, NEXT, REQUEUE, GIVE_UP, HAND_BACK, STOP, FOLLOW)
        ),
    ]
