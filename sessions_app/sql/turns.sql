-- A turn is a run that answers messages, with the runs that resume it after a wait.

-- Return the first run of the turn that this run belongs to.
CREATE OR REPLACE FUNCTION turn_root(rid uuid) RETURNS uuid LANGUAGE plpgsql STABLE AS $$
DECLARE q agent_run_queue;
BEGIN
  SELECT * INTO q FROM agent_run_queue w WHERE w.id = rid;
  IF NOT q.resumes THEN RETURN rid; END IF;
  RETURN (SELECT b.id FROM agent_run_queue b
           WHERE b.session_id = q.session_id AND NOT b.resumes AND b.purpose = 'turn'
             AND b.started_at <= coalesce(q.started_at, clock_timestamp())
           ORDER BY b.started_at DESC LIMIT 1);
END $$;

-- Return the length of the chain of messages between sessions that led to this turn.
CREATE OR REPLACE FUNCTION turn_hops(rid uuid) RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT coalesce(max((m.payload ->> 'hops')::int), 0) FROM agent_run_queue q
            JOIN session_messages m ON m.session_id = q.session_id AND m.seq = ANY (q.message_seqs)
           WHERE q.id IN (rid, turn_root(rid)) AND m.processed_at IS NOT NULL);
END $$;

-- Return whether the turn of this run is over. A turn that waits for a person goes on, unless the
-- session has begun another turn since.
CREATE OR REPLACE FUNCTION turn_is_over(rid uuid) RETURNS boolean LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN (SELECT q.status IN ('completed', 'failed', 'cancelled', 'dead') AND NOT (
                   q.stop_reason = 'requires_action' AND s.status = 'requires_action' AND NOT EXISTS (
                     SELECT 1 FROM agent_run_queue n WHERE n.session_id = s.id AND NOT n.resumes
                        AND n.started_at > q.started_at))
            FROM agent_run_queue q JOIN agent_sessions s ON s.id = q.session_id WHERE q.id = rid);
END $$;

-- Return the runs of a session.
CREATE OR REPLACE FUNCTION session_runs(sid uuid) RETURNS SETOF uuid LANGUAGE plpgsql STABLE ROWS 20 AS $$
BEGIN
  RETURN QUERY SELECT q.id FROM agent_run_queue q WHERE q.session_id = sid;
END $$;

-- Return the runs that are queued, run, or wait for a person.
CREATE OR REPLACE FUNCTION open_runs() RETURNS SETOF uuid LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT q.id FROM agent_run_queue q WHERE q.status IN ('queued', 'running')
    UNION ALL
    SELECT q.id FROM approvals a
      JOIN agent_run_queue q ON q.session_id = a.session_id AND q.stop_reason = 'requires_action'
     WHERE a.status = 'pending';
END $$;

-- Charge a call once, and add it to what its session has used. The session's row is locked before the
-- purses, as everywhere, so that no holder of a purse waits for a session.
CREATE OR REPLACE FUNCTION session_settle(call uuid, outcome text, price numeric, input bigint, output bigint,
  cached bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE sid uuid := model_call_session(call);
BEGIN
  PERFORM 1 FROM agent_sessions s WHERE s.id = sid FOR NO KEY UPDATE;
  IF NOT purse_settle(call, outcome, price, input, output, cached) THEN RETURN false; END IF;
  UPDATE agent_sessions s SET cost = s.cost + price, input_tokens = s.input_tokens + input,
    output_tokens = s.output_tokens + output WHERE s.id = sid;
  RETURN true;
END $$;
