-- The steps of a lane, one function each. The first statement of each locks the session's row, so
-- that later statements see a fresh snapshot. A step of a run is refused when its epoch is stale.
--
--   SY404 no such session   SY409 busy   SY410 ended   SY412 stale epoch: another worker holds the lane
--   SY429 too many messages wait in the session   SY430 too many runs wait in the workspace

-- ── The log ──────────────────────────────────────────────────────────────────────────────────────

CREATE OR REPLACE FUNCTION refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF tg_op = 'DELETE' THEN
    -- The erasure of a whole workspace sets this variable for its transaction.
    IF current_setting('switchyard.erasing', true) = old.workspace_id::text THEN RETURN old; END IF;
    -- So does the deletion of a whole session.
    IF current_setting('switchyard.deleting', true) = old.session_id::text THEN RETURN old; END IF;
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

CREATE OR REPLACE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON session_messages
  FOR EACH ROW EXECUTE FUNCTION refuse_event_change();

-- Return about how many bytes so many events take in the log, with their columns and indexes.
CREATE OR REPLACE FUNCTION event_bytes(events jsonb, number bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT pg_column_size(events) + 300 * number
$$;

-- The only INSERT into the log. `events` is [{id, type, payload, dedupe_key, key_id}]. The caller has
-- locked the session's row and stores the returned last_seq. Webhooks are queued in the same commit; a
-- workspace without webhooks only pays for one index lookup.
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
  PERFORM storage_add(s.workspace_id, event_bytes(events, jsonb_array_length(events)));
  IF webhook_exists(s.workspace_id) THEN
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

-- Return a UUID version 7, also on servers without uuidv7(): a random one that begins with the time in
-- milliseconds. Its version, 4 or 0100, becomes 0111. It is one expression, which callers inline.
CREATE OR REPLACE FUNCTION new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION new_event(type text, payload jsonb) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('id', new_id(), 'type', type, 'payload', payload)
$$;

CREATE OR REPLACE FUNCTION status_event(was text, becomes text, reason text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT new_event('session.status_changed',
                   jsonb_build_object('from', was, 'to', becomes, 'reason', reason))
$$;

CREATE OR REPLACE FUNCTION idle_event(stop_reason text, blocking jsonb) RETURNS jsonb LANGUAGE sql AS $$
  SELECT new_event('session.status_idle',
                   jsonb_build_object('stop_reason', stop_reason, 'blocking', blocking))
$$;

-- Lock the session. With an epoch, fail unless it is the current one.
CREATE OR REPLACE FUNCTION lane_lock(sid uuid, held_epoch bigint) RETURNS agent_sessions LANGUAGE plpgsql AS $$
DECLARE s agent_sessions;
BEGIN
  SELECT * INTO s FROM agent_sessions WHERE id = sid FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION 'no such session' USING errcode = 'SY404'; END IF;
  IF held_epoch IS NOT NULL AND s.lane_epoch <> held_epoch THEN
    RAISE EXCEPTION 'the lane has another holder' USING errcode = 'SY412';
  END IF;
  RETURN s;
END $$;

-- Append several events, and return the seq of the last one.
CREATE OR REPLACE FUNCTION log_append(sid uuid, held_epoch bigint, run uuid, author uuid, events jsonb)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; seq bigint;
BEGIN
  s := lane_lock(sid, held_epoch);
  seq := log_write(s, events, run, author);
  UPDATE agent_sessions SET last_seq = seq, active_at = clock_timestamp() WHERE id = sid;
  IF held_epoch IS NOT NULL THEN
    DELETE FROM session_drafts d WHERE d.session_id = sid
       AND events @> jsonb_build_array(jsonb_build_object('id', d.event_id));
  END IF;
  RETURN seq;
END $$;

-- ── Accepting a message ──────────────────────────────────────────────────────────────────────────

-- Append a message and queue its run, which keeps the message's overrides. A message that joins another
-- run leaves that run's overrides as they are. `session_limit` and `workspace_limit` bound the messages that wait in
-- the session and the runs that wait in the workspace; null means no limit.
CREATE OR REPLACE FUNCTION lane_accept(sid uuid, event jsonb, author uuid, mode text, prio smallint, run_id uuid,
  session_limit int, workspace_limit int, OUT seq bigint, OUT run uuid, OUT event_id uuid, OUT replayed boolean)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; first_rank double precision;
BEGIN
  s := lane_lock(sid, NULL);
  replayed := false;
  IF event ->> 'dedupe_key' IS NOT NULL THEN
    SELECT m.seq, m.id INTO seq, event_id FROM session_messages m
     WHERE m.session_id = sid AND m.dedupe_key = event ->> 'dedupe_key';
    IF FOUND THEN
      SELECT q.id INTO run FROM agent_run_queue q
       WHERE q.session_id = sid AND q.message_seqs @> ARRAY[lane_accept.seq]
       ORDER BY q.created_at LIMIT 1;
      replayed := true;
      RETURN;
    END IF;
  END IF;
  IF s.status = 'terminated' OR s.archived_at IS NOT NULL THEN
    RAISE EXCEPTION 'the session has ended' USING errcode = 'SY410';
  END IF;
  IF mode = 'reject' AND (s.status <> 'idle' OR EXISTS (
      SELECT 1 FROM agent_run_queue q WHERE q.session_id = sid AND q.status = 'queued')) THEN
    RAISE EXCEPTION 'the session is busy' USING errcode = 'SY409';
  END IF;
  PERFORM lane_check_queue(s, session_limit, workspace_limit);

  seq := log_write(s, jsonb_build_array(event), NULL, author);
  event_id := (event ->> 'id')::uuid;
  UPDATE agent_sessions SET last_seq = lane_accept.seq, active_at = clock_timestamp() WHERE id = sid;

  IF mode = 'steer' THEN
    UPDATE agent_run_queue q SET message_seqs = q.message_seqs || lane_accept.seq
     WHERE q.session_id = sid AND q.status = 'running' RETURNING q.id INTO run;
  ELSIF mode = 'collect' THEN
    UPDATE agent_run_queue q SET message_seqs = q.message_seqs || lane_accept.seq
     WHERE q.id = (SELECT w.id FROM agent_run_queue w WHERE w.session_id = sid
                    AND w.status = 'queued' AND w.on_busy = 'collect' ORDER BY w.rank DESC LIMIT 1)
    RETURNING q.id INTO run;
  ELSIF mode = 'interrupt' THEN
    SELECT min(q.rank) - 1 INTO first_rank FROM agent_run_queue q
     WHERE q.session_id = sid AND q.status = 'queued';
  END IF;
  IF run IS NULL THEN
    run := run_id;
    INSERT INTO agent_run_queue
      (id, workspace_id, session_id, created_by_id, key_id, on_busy, priority, rank, message_seqs,
       wishes, created_at)
    VALUES (run, s.workspace_id, sid, author, (event ->> 'key_id')::uuid, mode, prio,
            coalesce(first_rank, seq), ARRAY[seq], coalesce(event #> '{payload,overrides}', '{}'),
            clock_timestamp());
    IF s.status IN ('idle', 'rescheduling') THEN PERFORM pg_notify('switchyard_wake', sid::text); END IF;
  END IF;
END $$;

-- Fail if too many messages wait or join the running run, or too many runs wait in the workspace. Each count
-- reads one small index, of queued or of running runs only.
CREATE OR REPLACE FUNCTION lane_check_queue(s agent_sessions, session_limit int, workspace_limit int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF session_limit IS NOT NULL AND session_limit <=
      coalesce((SELECT sum(cardinality(q.message_seqs)) FROM agent_run_queue q
                 WHERE q.session_id = s.id AND q.status = 'queued'), 0)
      + coalesce((SELECT cardinality(q.message_seqs) FROM agent_run_queue q
                   WHERE q.session_id = s.id AND q.status = 'running'), 0) THEN
    RAISE EXCEPTION 'too many messages wait in the session' USING errcode = 'SY429';
  END IF;
  IF workspace_limit IS NOT NULL AND workspace_limit <=
      (SELECT count(*) FROM (SELECT 1 FROM agent_run_queue q
        WHERE q.workspace_id = s.workspace_id AND q.status = 'queued' LIMIT workspace_limit) waiting) THEN
    RAISE EXCEPTION 'too many runs wait in the workspace' USING errcode = 'SY430';
  END IF;
END $$;

-- ── Holding the lane ─────────────────────────────────────────────────────────────────────────────

-- Start the next due run, or leave the lane with `rest` as its status. The caller has locked the
-- session's row, and `s` holds it as it should be stored. A run that was started before comes first,
-- and keeps its lane while it waits for a retry, because no other run may end its open calls.
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
      cost = s.cost, input_tokens = s.input_tokens, output_tokens = s.output_tokens,
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
         WHEN q.purpose = 'compact' THEN 'compaction'
         WHEN q.purpose = 'consolidate' THEN 'consolidation' ELSE 'message' END)),
    run, NULL);
  UPDATE agent_sessions SET last_seq = s.last_seq, lane_epoch = lane_next.epoch, status = 'running',
    cost = s.cost, input_tokens = s.input_tokens, output_tokens = s.output_tokens,
    lease_owner = owner, lease_expires = clock_timestamp() + make_interval(secs => lease),
    active_at = clock_timestamp() WHERE id = s.id;
END $$;

CREATE OR REPLACE FUNCTION lane_claim(sid uuid, owner uuid, lease double precision, deadline double precision,
  OUT run uuid, OUT epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions;
BEGIN
  SELECT * INTO s FROM agent_sessions WHERE id = sid FOR NO KEY UPDATE;
  IF NOT FOUND OR s.status IN ('running', 'terminated') THEN RETURN; END IF;
  IF NOT EXISTS (SELECT 1 FROM agent_run_queue w WHERE w.session_id = sid AND w.status = 'queued') THEN
    RETURN;
  END IF;
  SELECT n.run, n.epoch INTO run, epoch FROM lane_next(s, s.status, owner, lease, deadline) n;
END $$;

-- Return the messages that joined the run after its claim; the claim took all others. Almost always
-- there is none, and then nothing of the log is read.
CREATE OR REPLACE FUNCTION lane_joined(rid uuid) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT ARRAY(SELECT u.seq FROM unnest(q.message_seqs) u(seq) WHERE u.seq > coalesce(q.claimed_seq, 0))
            FROM agent_run_queue q WHERE q.id = rid);
END $$;

-- Take the messages that were steered into the run, and return how many there were.
CREATE OR REPLACE FUNCTION lane_steered(s agent_sessions, rid uuid) RETURNS int LANGUAGE plpgsql AS $$
DECLARE joined bigint[] := lane_joined(rid); n int;
BEGIN
  IF joined = '{}' THEN RETURN 0; END IF;
  UPDATE session_messages m SET processed_at = clock_timestamp(), processed_run_id = rid
   WHERE m.session_id = s.id AND m.processed_at IS NULL AND m.type = 'user.message'
     AND m.seq = ANY (joined);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n;
END $$;

-- Write a step of a run, then take the messages that were steered into it. Return how many there were.
CREATE OR REPLACE FUNCTION lane_step(sid uuid, held_epoch bigint, rid uuid, events jsonb) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions;
BEGIN
  s := lane_lock(sid, held_epoch);
  IF jsonb_array_length(events) > 0 THEN
    UPDATE agent_sessions SET last_seq = log_write(s, events, rid, NULL), active_at = clock_timestamp()
     WHERE id = sid;
    DELETE FROM session_drafts d WHERE d.session_id = sid;
  END IF;
  RETURN lane_steered(s, rid);
END $$;

CREATE OR REPLACE FUNCTION lane_blocking(sid uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT coalesce(jsonb_agg(t.tool_use_id ORDER BY t.id), '[]') FROM tool_executions t
           WHERE t.session_id = sid
             AND (t.state = 'awaiting_approval'
                  OR t.state = 'running' AND (t.ownership = 'custom' OR t.parked)));
END $$;

-- End a run and start the next one in the same commit. `outcome` is completed or failed; with the stop
-- reason requires_action the lane parks. `goes_on` means that the run has not ended after all: a
-- message was steered into it, or what blocked it has been answered. `call` is the model call to charge,
-- if any; the session's row is locked before the purses, as everywhere.
CREATE OR REPLACE FUNCTION lane_finish(sid uuid, held_epoch bigint, rid uuid, events jsonb, outcome text, reason text,
  result jsonb, error jsonb, usage jsonb, policy jsonb, owner uuid, lease double precision, deadline double precision,
  call uuid, call_outcome text, price numeric, input bigint, output bigint, cached bigint,
  OUT goes_on boolean, OUT run uuid, OUT epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; blocking jsonb := '[]'; rest text := 'idle'; joined bigint[] := '{}';
BEGIN
  s := lane_lock(sid, held_epoch);
  -- A repetition after a lost connection finds that the first attempt ended the run.
  IF s.status <> 'running' THEN RAISE EXCEPTION 'the run has ended' USING errcode = 'SY412'; END IF;
  IF call IS NOT NULL AND purse_settle(call, call_outcome, price, input, output, cached) THEN
    s.cost := s.cost + price;
    s.input_tokens := s.input_tokens + input;
    s.output_tokens := s.output_tokens + output;
  END IF;
  DELETE FROM session_drafts d WHERE d.session_id = sid;
  joined := lane_joined(rid);
  goes_on := false;
  IF reason = 'requires_action' THEN
    blocking := lane_blocking(sid);
    rest := 'requires_action';
    goes_on := blocking = '[]';
  ELSIF joined <> '{}' AND outcome = 'completed' AND reason IN ('end_turn', 'max_tokens') THEN
    -- The answer comes first: the agent learns of the messages only now.
    s.last_seq := log_write(s, events, rid, NULL);
    events := '[]';
    goes_on := lane_steered(s, rid) > 0;
  END IF;
  IF NOT goes_on THEN events := events || idle_event(reason, blocking); END IF;
  IF events <> '[]' THEN s.last_seq := log_write(s, events, rid, NULL); END IF;
  IF goes_on THEN
    UPDATE agent_sessions SET last_seq = s.last_seq, cost = s.cost, input_tokens = s.input_tokens,
      output_tokens = s.output_tokens, active_at = clock_timestamp() WHERE id = sid;
    RETURN;
  END IF;
  UPDATE agent_run_queue q SET status = outcome, stop_reason = reason, result = lane_finish.result,
    error = lane_finish.error, usage = lane_finish.usage, policy = lane_finish.policy,
    finished_at = clock_timestamp()
   WHERE q.id = rid;
  IF joined <> '{}' THEN PERFORM lane_requeue_steered(s, rid); END IF;
  SELECT n.run, n.epoch INTO run, epoch FROM lane_next(s, rest, owner, lease, deadline) n;
END $$;

-- Queue a run for each message that was steered into a run and not taken. Its sender pays.
CREATE OR REPLACE FUNCTION lane_requeue_steered(s agent_sessions, rid uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE joined bigint[] := lane_joined(rid);
BEGIN
  IF joined = '{}' THEN RETURN; END IF;
  INSERT INTO agent_run_queue
    (id, workspace_id, session_id, created_by_id, key_id, on_busy, rank, message_seqs, wishes, created_at)
  SELECT new_id(), s.workspace_id, s.id, m.created_by_id, m.key_id, 'followup', m.seq, ARRAY[m.seq],
         coalesce(m.payload -> 'overrides', '{}'), clock_timestamp()
    FROM session_messages m
   WHERE m.session_id = s.id AND m.seq = ANY (joined) AND m.processed_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM session_messages w WHERE w.session_id = s.id AND w.seq > m.seq
          AND w.type = 'user.message_withdrawn' AND (w.payload ->> 'seq')::bigint = m.seq);
END $$;

-- End the open calls of a dead run, and return the result events. Calls that wait for a person, a
-- client or another session stay open: their answer starts another run.
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

-- Put a run back into the queue, due after `delay`, and free its lane. A run that was lost too often
-- without progress becomes dead.
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

-- Release a run by its holder, at shutdown or for a later retry.
CREATE OR REPLACE FUNCTION lane_release(sid uuid, held_epoch bigint, rid uuid, lost boolean, delay double precision,
  max_losses int, reason text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN lane_hand_back(lane_lock(sid, held_epoch), rid, lost, delay, max_losses, reason);
END $$;

-- Requeue every run whose lease has expired. The new epoch fences the old holder.
CREATE OR REPLACE FUNCTION lane_reap(max_losses int) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE r record; s agent_sessions;
BEGIN
  FOR r IN SELECT a.id FROM agent_run_queue q JOIN agent_sessions a ON a.id = q.session_id
            WHERE q.status = 'running' AND a.lease_expires < clock_timestamp() ORDER BY a.id LOOP
    SELECT * INTO s FROM agent_sessions a WHERE a.id = r.id AND a.status = 'running'
       AND a.lease_expires < clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    PERFORM lane_hand_back(s, q.id, true, 0, max_losses, 'lease expired')
       FROM agent_run_queue q WHERE q.session_id = s.id AND q.status = 'running';
    RETURN NEXT s.id;
  END LOOP;
END $$;

-- ── Stopping ─────────────────────────────────────────────────────────────────────────────────────

-- Stop the run of this session that runs, waits or is about to resume, and return its id. The draft of
-- the answer is kept, and every open call gets its one result; a retried call stays unknown.
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
  -- Text that is in the log already, for example before a call, is no draft any more.
  SELECT * INTO d FROM session_drafts w WHERE w.session_id = sid AND w.epoch = s.lane_epoch
     AND NOT EXISTS (SELECT 1 FROM session_messages m WHERE m.id = w.event_id);
  events := CASE WHEN d.text <> '' THEN jsonb_build_array(jsonb_build_object('id', d.event_id,
      'type', CASE d.kind WHEN 'thinking' THEN 'agent.thinking' ELSE 'agent.message' END,
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
