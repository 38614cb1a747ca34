-- The steps of a workflow, one function each. The first statement of each locks the workflow's row, so
-- that later statements see a fresh snapshot. A worker's write is refused when its epoch is stale.
--
--   SY404 no such workflow   SY410 it is over   SY412 stale epoch: another worker holds it
--
-- A worker may repeat a write whose response it lost: the second time nothing changes.

-- ── The log ──────────────────────────────────────────────────────────────────────────────────────

-- The only INSERT into the log. The caller has locked the workflow's row and stores the returned last_seq.
CREATE OR REPLACE FUNCTION workflow_log(w workflows, type text, payload jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO workflow_events (workflow_id, seq, type, payload, created_at)
  VALUES (w.id, w.last_seq + 1, workflow_log.type, workflow_log.payload, clock_timestamp());
  RETURN w.last_seq + 1;
END $$;

-- Append several notes, [{type, payload}]. The newest progress is also stored with the workflow.
CREATE OR REPLACE FUNCTION workflow_note(w workflows, notes jsonb) RETURNS workflows LANGUAGE plpgsql AS $$
DECLARE n jsonb;
BEGIN
  FOR n IN SELECT * FROM jsonb_array_elements(notes) LOOP
    w.last_seq := workflow_log(w, n ->> 'type', n -> 'payload');
    IF n ->> 'type' = 'progress' THEN w.progress := n -> 'payload'; END IF;
  END LOOP;
  RETURN w;
END $$;

CREATE OR REPLACE FUNCTION workflow_step_note(w workflows, s workflow_steps, more jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  RETURN workflow_log(w, 'step', jsonb_build_object('step', s.name, 'nth', s.nth, 'kind', s.kind,
    'position', s.position, 'status', s.status, 'attempt', s.attempts) || more);
END $$;

-- Lock the workflow. With an epoch, fail unless it is the current one.
CREATE OR REPLACE FUNCTION workflow_lock(wid uuid, held bigint) RETURNS workflows LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  SELECT * INTO w FROM workflows WHERE id = wid FOR NO KEY UPDATE;
  IF NOT FOUND THEN RAISE EXCEPTION 'no such workflow' USING errcode = 'SY404'; END IF;
  IF held IS NOT NULL AND w.epoch <> held THEN
    RAISE EXCEPTION 'the workflow has another holder' USING errcode = 'SY412';
  END IF;
  RETURN w;
END $$;

-- Store the workflow as given in `w` with a new status, without a holder. The commit notifies what
-- the new status starts.
CREATE OR REPLACE FUNCTION workflow_become(w workflows, becomes text, reason text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE is_over boolean := becomes IN ('complete', 'errored', 'terminated');
BEGIN
  w.last_seq := workflow_log(w, 'status', jsonb_strip_nulls(jsonb_build_object('from', w.status,
    'status', becomes, 'reason', reason, 'wake_at', w.wake_at, 'error', w.error)));
  UPDATE workflows SET last_seq = w.last_seq, status = becomes, epoch = w.epoch, lease_owner = NULL,
    lease_expires = NULL, deadline = NULL, wake_at = w.wake_at, open_position = w.open_position,
    queued_at = CASE WHEN becomes = 'queued' THEN clock_timestamp() ELSE queued_at END,
    recoveries = w.recoveries, is_dead = w.is_dead, pause_requested = false,
    paused_at = CASE WHEN becomes = 'paused' THEN clock_timestamp() END,
    undoing = CASE WHEN is_over THEN NULL ELSE w.undoing END, progress = w.progress,
    result = w.result, error = w.error,
    finished_at = CASE WHEN is_over THEN clock_timestamp() END
   WHERE id = w.id;
  IF becomes = 'queued' THEN
    PERFORM pg_notify('switchyard_wake', 'workflow:' || w.id);
  ELSIF becomes IN ('waiting', 'waiting_approval') AND w.wake_at IS NOT NULL THEN
    PERFORM pg_notify('switchyard_timer', '');
  ELSIF is_over AND w.parent_id IS NOT NULL THEN
    PERFORM pg_notify('switchyard_wake', 'workflow-child:' || w.id);
  END IF;
  RETURN w.last_seq;
END $$;

-- ── Starting and claiming ────────────────────────────────────────────────────────────────────────

-- Return the workflow of this key, created if there is none. `is_same`: name and params are equal.
CREATE OR REPLACE FUNCTION workflow_start(wid uuid, yard uuid, author uuid, its_key text, its_name text,
  its_version int, its_params jsonb, prio smallint, limit_key text, key_limit int, its_parent uuid,
  its_agent uuid, OUT id uuid, OUT is_new boolean, OUT is_same boolean)
LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  INSERT INTO workflows AS n (id, workspace_id, created_by_id, key, name, version, params, priority,
    concurrency_key, concurrency_limit, parent_id, agent_id, created_at, queued_at, last_seq)
  VALUES (wid, yard, author, its_key, its_name, its_version, its_params, prio, limit_key, key_limit,
    its_parent, its_agent, clock_timestamp(), clock_timestamp(), 1)
  ON CONFLICT (workspace_id, key) DO NOTHING RETURNING n.* INTO w;
  is_new := FOUND;
  is_same := true;
  IF is_new THEN
    INSERT INTO workflow_events (workflow_id, seq, type, payload, created_at)
    VALUES (w.id, 1, 'status', '{"status": "queued", "reason": "started"}', clock_timestamp());
    PERFORM pg_notify('switchyard_wake', 'workflow:' || w.id);
  ELSE
    SELECT * INTO w FROM workflows k WHERE k.workspace_id = yard AND k.key = its_key;
    is_same := w.name = its_name AND w.params = its_params;
  END IF;
  id := w.id;
END $$;

-- Claim the next due workflow, from the workspace with the fewest running and the oldest claim. Claims
-- of one workspace are serialised, so that its limits are exact.
CREATE OR REPLACE FUNCTION workflow_claim(owner uuid, lease double precision, known text[], most int)
RETURNS SETOF workflows LANGUAGE plpgsql AS $$
DECLARE yard record; w workflows; full_keys text[]; is_first boolean := true;
BEGIN
  FOR yard IN
    WITH RECURSIVE q AS (
      (SELECT f.workspace_id FROM workflows f WHERE f.status = 'queued' ORDER BY f.workspace_id LIMIT 1)
      UNION ALL
      SELECT (SELECT n.workspace_id FROM workflows n WHERE n.status = 'queued'
               AND n.workspace_id > q.workspace_id ORDER BY n.workspace_id LIMIT 1)
        FROM q WHERE q.workspace_id IS NOT NULL)
    SELECT q.workspace_id AS id, (SELECT count(*) FROM workflows r
             WHERE r.status = 'running' AND r.workspace_id = q.workspace_id) AS held
      FROM q WHERE q.workspace_id IS NOT NULL
     ORDER BY held, (SELECT max(c.claimed_at) FROM workflows c WHERE c.workspace_id = q.workspace_id)
              NULLS FIRST
  LOOP
    EXIT WHEN yard.held >= most;
    -- Wait only for the first lock: waiting while holding another one could deadlock.
    IF is_first THEN
      PERFORM pg_advisory_xact_lock(87, hashtext(yard.id::text));
      is_first := false;
    ELSE
      CONTINUE WHEN NOT pg_try_advisory_xact_lock(87, hashtext(yard.id::text));
    END IF;
    CONTINUE WHEN (SELECT count(*) FROM workflows r
                    WHERE r.status = 'running' AND r.workspace_id = yard.id) >= most;
    SELECT array_agg(f.k) INTO full_keys FROM (
      SELECT r.concurrency_key AS k FROM workflows r WHERE r.status = 'running'
         AND r.workspace_id = yard.id AND r.concurrency_key <> ''
       GROUP BY 1 HAVING count(*) >= min(r.concurrency_limit)) f;
    SELECT * INTO w FROM workflows c WHERE c.status = 'queued' AND c.workspace_id = yard.id
       AND c.name || '@' || c.version = ANY (known)
       AND c.concurrency_key <> ALL (coalesce(full_keys, '{}'))
       AND (c.concurrency_key = '' OR c.concurrency_limit > (SELECT count(*) FROM workflows r
             WHERE r.status = 'running' AND r.workspace_id = yard.id
               AND r.concurrency_key = c.concurrency_key))
     ORDER BY c.priority DESC, c.queued_at, c.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND;
    w.last_seq := workflow_log(w, 'status', '{"from": "queued", "status": "running"}');
    UPDATE workflows c SET status = 'running', epoch = c.epoch + 1, lease_owner = owner,
      lease_expires = clock_timestamp() + make_interval(secs => lease), claimed_at = clock_timestamp(),
      started_at = coalesce(c.started_at, clock_timestamp()), last_seq = w.last_seq, wake_at = NULL
     WHERE c.id = w.id RETURNING c.* INTO w;
    RETURN NEXT w;
    RETURN;
  END LOOP;
END $$;

-- ── Running steps ─────────────────────────────────────────────────────────────────────────────

-- End an attempt that failed. An attempt that timed out or was lost is already marked as such.
CREATE OR REPLACE FUNCTION workflow_keep_attempt(s workflow_steps, how text, fault jsonb) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO workflow_attempts (step_id, number, status, error, started_at, finished_at)
  VALUES (s.id, s.attempts, how, fault, s.tried_at, clock_timestamp())
  ON CONFLICT (step_id, number) DO NOTHING
$$;

-- Write how the body of a step ended: {position, attempt, status, error, retry_in, preview}.
CREATE OR REPLACE FUNCTION workflow_end_step(w workflows, ended jsonb, outcome text) RETURNS workflows
LANGUAGE plpgsql AS $$
DECLARE s workflow_steps; became text := ended ->> 'status'; pause double precision;
BEGIN
  pause := (ended ->> 'retry_in')::double precision;
  UPDATE workflow_steps u SET status = became, result = outcome, error = ended -> 'error',
    retry_at = CASE WHEN became = 'retrying' THEN clock_timestamp() + make_interval(secs => pause) END,
    finished_at = CASE WHEN became <> 'retrying' THEN clock_timestamp() END
   WHERE u.workflow_id = w.id AND u.position = (ended ->> 'position')::int AND u.status = 'running'
     AND u.attempts = (ended ->> 'attempt')::int
  RETURNING * INTO s;
  IF NOT FOUND THEN RETURN w; END IF;
  IF became <> 'complete' THEN PERFORM workflow_keep_attempt(s, 'errored', ended -> 'error'); END IF;
  w.last_seq := workflow_step_note(w, s, jsonb_strip_nulls(jsonb_build_object(
    'error', ended -> 'error', 'preview', ended -> 'preview', 'retry_at', s.retry_at)));
  IF became = 'complete' THEN w.recoveries := 0; END IF;
  RETURN w;
END $$;

-- Take the oldest untaken event of a type for this step.
CREATE OR REPLACE FUNCTION workflow_take_signal(w workflows, pos int, wanted text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE found_payload text;
BEGIN
  UPDATE workflow_signals g SET taken_by = pos
   WHERE g.id = (SELECT i.id FROM workflow_signals i WHERE i.workflow_id = w.id AND i.type = wanted
                    AND i.taken_by IS NULL ORDER BY i.seq LIMIT 1)
  RETURNING g.payload INTO found_payload;
  RETURN found_payload;
END $$;

-- Write a step that waits: {id, position, name, nth, kind, seconds, until, detail, run_id, child_id, branch}.
-- A step whose event has already arrived completes at once, and no step is open then.
CREATE OR REPLACE FUNCTION workflow_begin_wait(w workflows, begun jsonb) RETURNS workflows LANGUAGE plpgsql AS $$
DECLARE s workflow_steps; found_result text;
BEGIN
  INSERT INTO workflow_steps AS n (id, workflow_id, position, name, nth, kind, status, attempts,
    branch, wake_at, detail, run_id, child_id, started_at)
  VALUES ((begun ->> 'id')::uuid, w.id, (begun ->> 'position')::int, begun ->> 'name',
    (begun ->> 'nth')::int, begun ->> 'kind', 'waiting', 1, coalesce(begun ->> 'branch', ''),
    coalesce((begun ->> 'until')::timestamptz,
             clock_timestamp() + make_interval(secs => (begun ->> 'seconds')::double precision)),
    begun -> 'detail', (begun ->> 'run_id')::uuid, (begun ->> 'child_id')::uuid, clock_timestamp())
  RETURNING * INTO s;
  IF s.kind = 'wait_for_event' THEN
    found_result := workflow_take_signal(w, s.position, s.detail ->> 'type');
    IF found_result IS NOT NULL THEN
      UPDATE workflow_steps u SET status = 'complete', result = found_result,
        finished_at = clock_timestamp() WHERE u.id = s.id RETURNING * INTO s;
    END IF;
  END IF;
  w.last_seq := workflow_step_note(w, s, jsonb_strip_nulls(jsonb_build_object(
    'wake_at', s.wake_at, 'detail', s.detail)));
  IF s.branch = '' THEN
    w.open_position := CASE WHEN s.status = 'waiting' THEN s.position END;
    w.wake_at := CASE WHEN s.status = 'waiting' THEN s.wake_at END;
  END IF;
  RETURN w;
END $$;

-- Write an attempt before its body runs: {id, position, name, nth, kind, attempt, branch}.
CREATE OR REPLACE FUNCTION workflow_begin_attempt(w workflows, begun jsonb) RETURNS workflows
LANGUAGE plpgsql AS $$
DECLARE s workflow_steps;
BEGIN
  INSERT INTO workflow_steps AS n (id, workflow_id, position, name, nth, kind, status, attempts, branch,
    started_at, tried_at)
  VALUES ((begun ->> 'id')::uuid, w.id, (begun ->> 'position')::int, begun ->> 'name',
    (begun ->> 'nth')::int, begun ->> 'kind', 'running', (begun ->> 'attempt')::int,
    coalesce(begun ->> 'branch', ''), clock_timestamp(), clock_timestamp())
  ON CONFLICT (workflow_id, position) DO UPDATE SET status = 'running', attempts = excluded.attempts,
    tried_at = excluded.tried_at, error = NULL, retry_at = NULL WHERE n.attempts < excluded.attempts
  RETURNING * INTO s;
  IF NOT FOUND THEN RETURN w; END IF;
  w.last_seq := workflow_step_note(w, s, '{}');
  w.open_position := s.position;
  RETURN w;
END $$;

-- End one step and begin the next in one commit. `state` is running, parked (waiting), paused, or gone
-- if the workflow continued without the caller. A branch that waits is held, while the workflow goes
-- on with its other branches.
CREATE OR REPLACE FUNCTION workflow_advance(wid uuid, held bigint, ended jsonb, outcome text, begun jsonb, notes jsonb,
  OUT state text, OUT result text)
LANGUAGE plpgsql AS $$
DECLARE w workflows; s workflow_steps; waits boolean; is_held boolean := false;
BEGIN
  w := workflow_lock(wid, held);
  IF w.status <> 'running' THEN state := 'gone'; RETURN; END IF;
  IF ended IS NOT NULL THEN w := workflow_end_step(w, ended, outcome); END IF;
  IF notes IS NOT NULL THEN w := workflow_note(w, notes); END IF;
  state := 'running';
  waits := begun IS NOT NULL AND begun ->> 'kind' NOT IN ('do', 'rollback');
  IF begun IS NULL AND ended ->> 'status' = 'retrying' AND ended -> 'branch' IS NULL THEN
    w.wake_at := clock_timestamp() + make_interval(secs => (ended ->> 'retry_in')::double precision);
    state := 'waiting';
  ELSIF begun IS NOT NULL AND w.pause_requested THEN
    state := 'paused';
  ELSIF waits THEN
    -- A replay finds the step that the first execution wrote.
    SELECT * INTO s FROM workflow_steps e
     WHERE e.workflow_id = wid AND e.position = (begun ->> 'position')::int;
    IF FOUND AND s.status <> 'waiting' THEN
      -- The step ended after the replay began: the next replay continues from there.
      state := 'queued';
    ELSIF FOUND THEN
      w.open_position := s.position;
      w.wake_at := s.wake_at;
    ELSE
      w := workflow_begin_wait(w, begun);
    END IF;
    SELECT e.result INTO result FROM workflow_steps e
     WHERE e.workflow_id = wid AND e.position = (begun ->> 'position')::int;
    IF state = 'queued' THEN
      w.wake_at := NULL;
    ELSIF result IS NULL AND begun ->> 'branch' IS NOT NULL THEN
      is_held := true;
    ELSIF result IS NULL THEN
      state := CASE begun ->> 'kind' WHEN 'wait_for_approval' THEN 'waiting_approval' ELSE 'waiting' END;
    END IF;
  ELSIF begun IS NOT NULL THEN
    w := workflow_begin_attempt(w, begun);
  END IF;
  IF state = 'running' THEN
    UPDATE workflows SET last_seq = w.last_seq, recoveries = w.recoveries, progress = w.progress,
      open_position = w.open_position, deadline = CASE WHEN begun IS NOT NULL THEN
        clock_timestamp() + make_interval(secs => (begun ->> 'timeout')::double precision) END
     WHERE id = wid;
    IF is_held THEN state := 'held'; END IF;
    RETURN;
  END IF;
  PERFORM workflow_become(w, CASE WHEN state <> 'paused' AND w.pause_requested THEN 'paused' ELSE state END,
                          NULL);
  state := 'parked';
END $$;

-- The fast path of the function above: one step completed and the next begins. Return whether it
-- applied; otherwise the caller uses the function above.
CREATE OR REPLACE FUNCTION workflow_go_on(wid uuid, held bigint, ended int, ended_attempt int, outcome text, sid uuid,
  pos int, its_name text, its_nth int, timeout double precision) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE seq bigint; done workflow_steps;
BEGIN
  UPDATE workflows w SET last_seq = w.last_seq + 2, recoveries = 0, open_position = pos,
    deadline = clock_timestamp() + make_interval(secs => timeout)
   WHERE w.id = wid AND w.epoch = held AND w.status = 'running' AND NOT w.pause_requested
  RETURNING w.last_seq INTO seq;
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE workflow_steps u SET status = 'complete', result = outcome, finished_at = clock_timestamp()
   WHERE u.workflow_id = wid AND u.position = ended AND u.status = 'running' AND u.attempts = ended_attempt
  RETURNING u.name, u.nth, u.kind INTO done.name, done.nth, done.kind;
  IF NOT FOUND THEN RAISE EXCEPTION 'the step has ended' USING errcode = 'SY412'; END IF;
  INSERT INTO workflow_steps (id, workflow_id, position, name, nth, kind, status, attempts, started_at,
    tried_at)
  VALUES (sid, wid, pos, its_name, its_nth, 'do', 'running', 1, clock_timestamp(), clock_timestamp());
  INSERT INTO workflow_events (workflow_id, seq, type, payload, created_at) VALUES
    (wid, seq - 1, 'step', jsonb_build_object('step', done.name, 'nth', done.nth, 'kind', done.kind,
       'position', ended, 'status', 'complete', 'attempt', ended_attempt, 'preview', left(outcome, 300)),
     clock_timestamp()),
    (wid, seq, 'step', jsonb_build_object('step', its_name, 'nth', its_nth, 'kind', 'do',
       'position', pos, 'status', 'running', 'attempt', 1), clock_timestamp());
  RETURN true;
END $$;

-- Park the workflow, because all its branches wait at these positions. If a result arrived for one of
-- them while others ran, the workflow continues at once.
CREATE OR REPLACE FUNCTION workflow_hold(wid uuid, held bigint, ended jsonb, outcome text, notes jsonb, waits int[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE w workflows; asks boolean; is_old boolean; becomes text;
BEGIN
  w := workflow_lock(wid, held);
  IF w.status <> 'running' THEN RETURN; END IF;
  IF ended IS NOT NULL THEN w := workflow_end_step(w, ended, outcome); END IF;
  IF notes IS NOT NULL THEN w := workflow_note(w, notes); END IF;
  SELECT min(CASE s.status WHEN 'retrying' THEN s.retry_at ELSE s.wake_at END),
         bool_or(s.kind = 'wait_for_approval'), bool_or(s.status NOT IN ('waiting', 'retrying'))
    INTO w.wake_at, asks, is_old
    FROM workflow_steps s WHERE s.workflow_id = wid AND s.position = ANY (waits);
  w.open_position := NULL;
  becomes := CASE WHEN w.pause_requested THEN 'paused' WHEN is_old THEN 'queued'
                  WHEN asks THEN 'waiting_approval' ELSE 'waiting' END;
  IF becomes = 'queued' THEN w.wake_at := NULL; END IF;
  PERFORM workflow_become(w, becomes, NULL);
END $$;

-- Append notes only: progress, log lines and messages for viewers.
CREATE OR REPLACE FUNCTION workflow_say(wid uuid, held bigint, notes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, held);
  IF w.status <> 'running' THEN RETURN; END IF;
  w := workflow_note(w, notes);
  UPDATE workflows SET last_seq = w.last_seq, progress = w.progress WHERE id = wid;
END $$;

-- Store why the workflow is rolled back, so that the rollback continues after a crash.
CREATE OR REPLACE FUNCTION workflow_undo(wid uuid, held bigint, ended jsonb, why jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, held);
  IF w.status <> 'running' THEN RETURN; END IF;
  IF ended IS NOT NULL THEN w := workflow_end_step(w, ended, NULL); END IF;
  UPDATE workflows SET undoing = why, last_seq = w.last_seq, deadline = NULL WHERE id = wid;
END $$;

CREATE OR REPLACE FUNCTION workflow_finish(wid uuid, held bigint, ended jsonb, outcome text, notes jsonb, becomes text,
  its_result text, fault jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, held);
  IF w.status <> 'running' THEN RETURN; END IF;
  IF ended IS NOT NULL THEN w := workflow_end_step(w, ended, outcome); END IF;
  IF notes IS NOT NULL THEN w := workflow_note(w, notes); END IF;
  w.result := its_result;
  w.error := fault;
  w.open_position := NULL;
  PERFORM workflow_become(w, becomes, NULL);
END $$;

-- ── Events from outside ──────────────────────────────────────────────────────────────────────

-- End a step that waits, and queue the workflow. The caller has locked the row, in `w`.
CREATE OR REPLACE FUNCTION workflow_settle_held(w workflows, pos int, becomes text, outcome text, fault jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE s workflow_steps;
BEGIN
  -- The run it waited for was stopped together with it, so a restart must not reuse this outcome.
  IF w.status IN ('complete', 'errored', 'terminated') OR w.undoing IS NOT NULL THEN RETURN false; END IF;
  UPDATE workflow_steps u SET status = becomes, result = outcome, error = fault,
    finished_at = clock_timestamp()
   WHERE u.workflow_id = w.id AND u.position = pos AND u.status = 'waiting' RETURNING * INTO s;
  IF NOT FOUND THEN RETURN false; END IF;
  w.last_seq := workflow_step_note(w, s, jsonb_strip_nulls(jsonb_build_object('error', fault,
    'preview', left(outcome, 300))));
  -- While another branch runs, the open step belongs to that branch.
  IF s.branch = '' THEN w.open_position := NULL; END IF;
  w.wake_at := NULL;
  IF w.status IN ('waiting', 'waiting_approval') THEN
    PERFORM workflow_become(w, 'queued', NULL);
  ELSE
    UPDATE workflows SET last_seq = w.last_seq, open_position = w.open_position, wake_at = NULL
     WHERE id = w.id;
  END IF;
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION workflow_settle(wid uuid, pos int, becomes text, outcome text, fault jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN workflow_settle_held(workflow_lock(wid, NULL), pos, becomes, outcome, fault);
END $$;

CREATE OR REPLACE FUNCTION workflow_timeout_fault(s workflow_steps) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('code', 'timeout', 'message', CASE s.kind WHEN 'wait_for_approval'
    THEN 'The approval was not answered in time.' ELSE 'Nothing arrived in time for ' || s.name || '.' END)
$$;

-- Store an event, or give it to the step that waits for it. A step whose wait has timed out does not
-- get it, even if its timer has not fired yet.
CREATE OR REPLACE FUNCTION workflow_signal(wid uuid, wanted text, its_payload text, author uuid, most int)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE w workflows; s workflow_steps; arrived bigint;
BEGIN
  w := workflow_lock(wid, NULL);
  IF w.status IN ('complete', 'errored', 'terminated') THEN
    RAISE EXCEPTION 'the workflow is over' USING errcode = 'SY410';
  END IF;
  arrived := workflow_log(w, 'log', jsonb_build_object('message', 'Event received: ' || wanted,
    'event', wanted));
  w.last_seq := arrived;
  INSERT INTO workflow_signals (workflow_id, seq, type, payload, created_by_id, created_at)
  VALUES (wid, arrived, wanted, its_payload, author, clock_timestamp());
  UPDATE workflows SET last_seq = w.last_seq WHERE id = wid;
  -- If several branches wait for the same type, the first gets the event.
  FOR s IN SELECT * FROM workflow_steps o WHERE o.workflow_id = wid AND o.branch <> ''
      AND o.kind = 'wait_for_event' AND o.status = 'waiting' AND o.detail ->> 'type' = wanted
      ORDER BY o.position LOOP
    SELECT * INTO w FROM workflows k WHERE k.id = wid;
    IF s.wake_at <= clock_timestamp() AND w.status <> 'paused' THEN
      PERFORM workflow_settle_held(w, s.position, 'errored', NULL, workflow_timeout_fault(s));
    ELSE
      PERFORM workflow_settle_held(w, s.position, 'complete',
        workflow_take_signal(w, s.position, wanted), NULL);
      RETURN arrived;
    END IF;
  END LOOP;
  SELECT * INTO w FROM workflows k WHERE k.id = wid;
  SELECT * INTO s FROM workflow_steps o WHERE o.workflow_id = wid AND o.position = w.open_position
     AND o.branch = '' AND o.kind = 'wait_for_event' AND o.status = 'waiting';
  IF FOUND AND s.wake_at <= clock_timestamp() AND w.status <> 'paused' THEN
    PERFORM workflow_settle_held(w, s.position, 'errored', NULL, workflow_timeout_fault(s));
  ELSIF FOUND AND s.detail ->> 'type' = wanted THEN
    PERFORM workflow_settle_held(w, s.position, 'complete',
      workflow_take_signal(w, s.position, wanted), NULL);
    RETURN arrived;
  END IF;
  -- An event that a step waits for was delivered above, so the limit only applies to the others.
  IF (SELECT count(*) FROM workflow_signals g WHERE g.workflow_id = wid AND g.taken_by IS NULL) > most THEN
    RAISE EXCEPTION 'the inbox is full' USING errcode = 'SY429';
  END IF;
  RETURN arrived;
END $$;

-- ── Timers and recovery ──────────────────────────────────────────────────────────────────────────

-- Fire a step whose time has come: a sleep ends, a retry is due, or a wait times out.
CREATE OR REPLACE FUNCTION workflow_fire_step(w workflows, s workflow_steps) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF s.kind = 'sleep' THEN
    PERFORM workflow_settle_held(w, s.position, 'complete', 'null', NULL);
  ELSE
    PERFORM workflow_settle_held(w, s.position, 'errored', NULL, workflow_timeout_fault(s));
  END IF;
END $$;

CREATE OR REPLACE FUNCTION workflow_fire_due(most int) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE w workflows; s workflow_steps; is_fired boolean;
BEGIN
  FOR w IN SELECT * FROM workflows d WHERE d.status IN ('waiting', 'waiting_approval')
              AND d.wake_at <= clock_timestamp() ORDER BY d.wake_at LIMIT most
              FOR NO KEY UPDATE SKIP LOCKED LOOP
    is_fired := false;
    -- The one step that the workflow waits for, or every branch whose time has come.
    FOR s IN SELECT * FROM workflow_steps o WHERE o.workflow_id = w.id AND o.status = 'waiting'
        AND (o.position = w.open_position OR w.open_position IS NULL AND o.branch <> ''
             AND o.wake_at <= clock_timestamp()) ORDER BY o.position LOOP
      IF is_fired THEN SELECT * INTO w FROM workflows k WHERE k.id = w.id; END IF;
      PERFORM workflow_fire_step(w, s);
      is_fired := true;
    END LOOP;
    IF NOT is_fired THEN
      w.wake_at := NULL;
      PERFORM workflow_become(w, 'queued', 'retry');
    END IF;
    RETURN NEXT w.id;
  END LOOP;
END $$;

-- Mark attempts as lost or timed out. Their steps stay open, and the next worker decides about them.
CREATE OR REPLACE FUNCTION workflow_drop_attempt(w workflows, how text, fault jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE s workflow_steps;
BEGIN
  UPDATE workflow_steps u SET error = fault WHERE u.workflow_id = w.id
     AND u.position = w.open_position AND u.status = 'running' RETURNING * INTO s;
  IF FOUND THEN PERFORM workflow_keep_attempt(s, how, fault); END IF;
END $$;

-- Release a workflow at the worker's shutdown. This does not count as a recovery.
CREATE OR REPLACE FUNCTION workflow_release(wid uuid, held bigint, reason text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, held);
  IF w.status <> 'running' THEN RETURN; END IF;
  PERFORM workflow_drop_attempt(w, 'lost', NULL);
  w.epoch := w.epoch + 1;
  PERFORM workflow_become(w, CASE WHEN w.pause_requested THEN 'paused' ELSE 'queued' END, reason);
END $$;

-- Requeue every workflow whose lease has expired. The new epoch fences the old worker.
CREATE OR REPLACE FUNCTION workflow_reap(most_recoveries int) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  FOR w IN SELECT * FROM workflows r WHERE r.status = 'running' AND r.lease_expires < clock_timestamp()
              ORDER BY r.id FOR NO KEY UPDATE SKIP LOCKED LOOP
    PERFORM workflow_drop_attempt(w, 'lost', NULL);
    w.epoch := w.epoch + 1;
    w.recoveries := w.recoveries + 1;
    IF w.recoveries >= most_recoveries THEN
      w.is_dead := true;
      w.error := jsonb_build_object('code', 'dead_letter', 'message',
        'It was lost ' || w.recoveries || ' times in a row without getting anywhere.');
      PERFORM workflow_become(w, 'errored', 'dead letter');
    ELSE
      PERFORM workflow_become(w, CASE WHEN w.pause_requested THEN 'paused' ELSE 'queued' END, 'recovered');
    END IF;
    RETURN NEXT w.id;
  END LOOP;
END $$;

-- Time out attempts that exceed their limit, even if their worker is healthy.
CREATE OR REPLACE FUNCTION workflow_end_overdue() RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  FOR w IN SELECT * FROM workflows r WHERE r.status = 'running' AND r.deadline < clock_timestamp()
              ORDER BY r.id FOR NO KEY UPDATE SKIP LOCKED LOOP
    PERFORM workflow_drop_attempt(w, 'timed_out',
      '{"code": "timeout", "message": "The attempt took longer than it may."}');
    w.epoch := w.epoch + 1;
    PERFORM workflow_become(w, CASE WHEN w.pause_requested THEN 'paused' ELSE 'queued' END, 'timeout');
    PERFORM pg_notify('switchyard_workflow_stop', w.id::text);
    RETURN NEXT w.id;
  END LOOP;
END $$;

-- ── Actions of people ─────────────────────────────────────────────────────────────────────────────

-- Terminate a workflow, even while a worker holds it. Its open attempts end as lost.
CREATE OR REPLACE FUNCTION workflow_stop(wid uuid, becomes text, fault jsonb, reason text, wanted text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, NULL);
  IF w.status IN ('complete', 'errored', 'terminated') OR w.status <> coalesce(wanted, w.status) THEN
    RETURN false;
  END IF;
  PERFORM workflow_drop_attempt(w, 'lost', NULL);
  w.epoch := w.epoch + 1;
  w.error := fault;
  w.wake_at := NULL;
  PERFORM workflow_become(w, becomes, reason);
  PERFORM pg_notify('switchyard_workflow_stop', w.id::text);
  RETURN true;
END $$;

-- Roll a workflow back and end it: a worker replays it and undoes its completed steps.
CREATE OR REPLACE FUNCTION workflow_stop_undoing(wid uuid, why jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, NULL);
  IF w.status IN ('complete', 'errored', 'terminated') THEN RETURN false; END IF;
  PERFORM workflow_drop_attempt(w, 'lost', NULL);
  w.epoch := w.epoch + 1;
  w.undoing := coalesce(w.undoing, why);
  w.wake_at := NULL;
  PERFORM workflow_become(w, 'queued', 'rollback');
  PERFORM pg_notify('switchyard_workflow_stop', w.id::text);
  RETURN true;
END $$;

-- Pause a workflow: a running step may finish, and no new step begins.
CREATE OR REPLACE FUNCTION workflow_pause(wid uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE w workflows;
BEGIN
  w := workflow_lock(wid, NULL);
  IF w.status IN ('complete', 'errored', 'terminated') THEN
    RAISE EXCEPTION 'the workflow is over' USING errcode = 'SY410';
  ELSIF w.status = 'running' AND NOT w.pause_requested THEN
    w.last_seq := workflow_log(w, 'status', '{"status": "running", "reason": "pausing"}');
    UPDATE workflows SET pause_requested = true, last_seq = w.last_seq WHERE id = wid;
  ELSIF w.status IN ('queued', 'waiting', 'waiting_approval') THEN
    PERFORM workflow_become(w, 'paused', NULL);
    RETURN 'paused';
  END IF;
  RETURN w.status;
END $$;

-- Resume a workflow. Every timer continues with the time that it had left.
CREATE OR REPLACE FUNCTION workflow_resume(wid uuid) RETURNS text LANGUAGE plpgsql AS $$
DECLARE w workflows; s workflow_steps; shift interval; becomes text := 'queued';
BEGIN
  w := workflow_lock(wid, NULL);
  IF w.status IN ('complete', 'errored', 'terminated') THEN
    RAISE EXCEPTION 'the workflow is over' USING errcode = 'SY410';
  END IF;
  IF w.status <> 'paused' THEN
    UPDATE workflows SET pause_requested = false WHERE id = wid;
    RETURN w.status;
  END IF;
  shift := clock_timestamp() - w.paused_at;
  UPDATE workflow_steps u SET wake_at = u.wake_at + shift, retry_at = u.retry_at + shift
   WHERE u.workflow_id = wid AND u.status IN ('waiting', 'retrying')
     AND (u.position = w.open_position OR u.branch <> '');
  PERFORM approvals_postpone('workflow', array_agg(q.id), shift) FROM workflow_steps q
   WHERE q.workflow_id = wid AND q.kind = 'wait_for_approval' AND q.status = 'waiting';
  -- Each branch determines what it waits for in the next replay.
  SELECT * INTO s FROM workflow_steps o WHERE o.workflow_id = wid AND o.position = w.open_position
     AND o.branch = '' AND o.status IN ('waiting', 'retrying');
  IF FOUND AND (w.undoing IS NULL OR s.kind = 'rollback') THEN
    w.wake_at := coalesce(s.retry_at, s.wake_at);
    becomes := CASE s.kind WHEN 'wait_for_approval' THEN 'waiting_approval' ELSE 'waiting' END;
  END IF;
  PERFORM workflow_become(w, becomes, 'resumed');
  RETURN becomes;
END $$;

-- Restart a workflow from a position; 0 is the beginning. Earlier results are kept, and a restart from
-- the beginning also drops received events. If the workflow was over, waiting branches start their
-- waits again, because the runs they waited for ended with it. The current worker is fenced.
CREATE OR REPLACE FUNCTION workflow_restart(wid uuid, pos int, now_version int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w workflows; gone uuid[];
BEGIN
  w := workflow_lock(wid, NULL);
  SELECT array_agg(s.id) INTO gone FROM workflow_steps s WHERE s.workflow_id = wid
     AND (s.position >= pos OR s.kind = 'rollback'
          OR w.status IN ('errored', 'terminated') AND s.status NOT IN ('complete', 'errored'));
  DELETE FROM workflow_attempts a WHERE a.step_id = ANY (gone);
  DELETE FROM workflow_steps s WHERE s.id = ANY (gone);
  IF pos = 0 THEN
    DELETE FROM workflow_signals g WHERE g.workflow_id = wid;
    w.progress := NULL;
  END IF;
  UPDATE workflows SET generation = generation + 1, version = now_version,
    started_at = CASE WHEN pos > 0 THEN started_at END WHERE id = wid;
  w.epoch := w.epoch + 1;
  w.recoveries := 0;
  w.is_dead := false;
  w.result := NULL;
  w.error := NULL;
  w.undoing := NULL;
  w.wake_at := NULL;
  w.open_position := NULL;
  PERFORM workflow_become(w, 'queued', 'restarted');
  PERFORM pg_notify('switchyard_workflow_stop', w.id::text);
END $$;

-- ── Agents' runs ─────────────────────────────────────────────────────────────────────────────────

-- Notify, in the commit that ends a run, the step that waits for it. A run that waits for a person has
-- not ended; the run that resumes it will. No lock is taken, as the session's row is locked.
CREATE OR REPLACE FUNCTION ring_step_of_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF new.stop_reason = 'requires_action' THEN RETURN NULL; END IF;
  IF new.resumes THEN
    -- If steps wait for several turns of one session, each checks whether its turn ended.
    PERFORM pg_notify('switchyard_wake', 'workflow-run:' || s.run_id)
       FROM session_runs(new.session_id) q(id) JOIN workflow_steps s ON s.run_id = q.id
      WHERE s.status = 'waiting';
  ELSE
    PERFORM pg_notify('switchyard_wake', 'workflow-run:' || s.run_id)
       FROM workflow_steps s WHERE s.run_id = new.id AND s.status = 'waiting';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER run_rings_the_step_that_waits AFTER UPDATE OF status ON agent_run_queue FOR EACH ROW
  WHEN (new.status IN ('completed', 'failed', 'cancelled', 'dead') AND old.status <> new.status)
  EXECUTE FUNCTION ring_step_of_run();

