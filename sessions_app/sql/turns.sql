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

-- Charge a call once, and add it to what its session has used. The session's row is locked before the
-- purses, as everywhere, so that no holder of a purse waits for a session.
CREATE OR REPLACE FUNCTION session_settle(call uuid, outcome text, price numeric, input bigint, output bigint,
  cached bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE sid uuid;
BEGIN
  SELECT c.session_id INTO sid FROM model_calls c WHERE c.id = call;
  PERFORM 1 FROM agent_sessions s WHERE s.id = sid FOR NO KEY UPDATE;
  IF NOT purse_settle(call, outcome, price, input, output, cached) THEN RETURN false; END IF;
  UPDATE agent_sessions s SET cost = s.cost + price, input_tokens = s.input_tokens + input,
    output_tokens = s.output_tokens + output WHERE s.id = sid;
  RETURN true;
END $$;
