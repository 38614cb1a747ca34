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

-- Return the row of the first run of the turn, or of the run itself if there is no other.
CREATE OR REPLACE FUNCTION turn_root_row(q agent_run_queue) RETURNS agent_run_queue LANGUAGE plpgsql STABLE AS $$
DECLARE r agent_run_queue;
BEGIN
  IF NOT q.resumes THEN RETURN q; END IF;
  SELECT * INTO r FROM agent_run_queue w WHERE w.id = coalesce(turn_root(q.id), q.id);
  RETURN r;
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

-- ── What a run reads ─────────────────────────────────────────────────────────────────────────────

-- Return the newest (or oldest) entries of a conversation after a seq, with those up to it that are
-- named in `also`, in the order in which the agent learned of them: a message that waited stands where
-- a run took it. Each is a list: seq, type, payload, whether it was taken, run, time in microseconds.
-- Entries that the agent never sees are left out here and not later: a caller that gets as many as it
-- asked for must be able to conclude that there are more.
CREATE OR REPLACE FUNCTION log_entries(sid uuid, types text[], after bigint, most int, also bigint[], newest boolean)
RETURNS json LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE found session_messages[];
BEGIN
  -- One index scan each, because one condition for all would read the whole session.
  IF newest THEN
    found := ARRAY(SELECT m FROM session_messages m WHERE m.session_id = sid AND m.seq > after
      AND m.type = ANY (types) AND log_is_told(m) ORDER BY m.seq DESC LIMIT most);
  ELSE
    found := ARRAY(SELECT m FROM session_messages m WHERE m.session_id = sid AND m.seq > after
      AND m.type = ANY (types) AND log_is_told(m) ORDER BY m.seq LIMIT most);
  END IF;
  IF cardinality(also) > 0 THEN
    found := found || ARRAY(SELECT m FROM session_messages m WHERE m.session_id = sid
      AND m.seq = ANY (also) AND m.seq <= after AND m.type = ANY (types) AND log_is_told(m));
  END IF;
  RETURN (SELECT json_agg(json_build_array(m.seq, m.type, m.payload, m.processed_at IS NOT NULL, m.run_id,
                                           (extract(epoch FROM log_known_at(m)) * 1000000)::bigint)
                          ORDER BY log_known_at(m), m.seq) FROM unnest(found) m);
END $$;

-- Return whether the agent is told of an entry at all.
CREATE OR REPLACE FUNCTION log_is_told(m session_messages) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE m.type WHEN 'session.child_idle' THEN m.payload -> 'shown' = 'true'
                     WHEN 'session.outcome_judged' THEN m.payload -> 'returned' = 'true' ELSE true END
$$;

CREATE OR REPLACE FUNCTION log_known_at(m session_messages) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN m.type IN ('user.message', 'session.child_idle')
              THEN coalesce(m.processed_at, m.created_at) ELSE m.created_at END
$$;

-- Return the newest files that came with messages up to a seq, without the messages named in `but`.
CREATE OR REPLACE FUNCTION log_earlier_files(sid uuid, until bigint, but bigint[]) RETURNS json
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN (SELECT coalesce(json_agg(f.path ORDER BY f.seq, f.path), '[]') FROM (
    SELECT m.seq, a ->> 'path' AS path
      FROM session_messages m, jsonb_array_elements(m.payload -> 'attachments') a
     WHERE m.session_id = sid AND m.seq <= until AND m.type = 'user.message'
       -- As in the index `message_with_files`.
       AND (m.payload #> '{attachments,0}') IS NOT NULL
       AND m.processed_at IS NOT NULL AND m.seq <> ALL (coalesce(but, '{}'))
     ORDER BY m.seq DESC LIMIT 20) f);
END $$;

-- Return the state of a session that its context is built from, for a run or for a viewer's preview:
-- a few rows that are found by their keys, however long the session is.
CREATE OR REPLACE FUNCTION context_basis(sid uuid, rid uuid, viewer uuid) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE s agent_sessions; q agent_run_queue;
BEGIN
  SELECT * INTO s FROM agent_sessions WHERE id = sid;
  SELECT * INTO q FROM agent_run_queue WHERE id = rid;
  RETURN context_basis_of(s, q, turn_root_row(q), viewer);
END $$;

-- The same for rows that were read: the session, the run, if any, and the first run of its turn.
CREATE OR REPLACE FUNCTION context_basis_of(s agent_sessions, q agent_run_queue, r agent_run_queue, viewer uuid)
RETURNS json LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE c agent_context_snapshots; speaker uuid := viewer;
BEGIN
  SELECT * INTO c FROM agent_context_snapshots n WHERE n.session_id = s.id AND n.undone_at IS NULL
   ORDER BY n.id DESC LIMIT 1;
  IF q.id IS NOT NULL THEN
    speaker := r.created_by_id;
    IF cardinality(r.message_seqs || q.message_seqs) > 0 THEN
      -- The sender of a steered message counts only once the run has taken the message.
      speaker := (SELECT m.created_by_id FROM session_messages m
        WHERE m.session_id = s.id AND m.seq = ANY (r.message_seqs || q.message_seqs)
          AND m.processed_at IS NOT NULL ORDER BY m.seq DESC LIMIT 1);
    END IF;
  END IF;
  RETURN json_build_object('snapshot_id', c.id, 'snapshot_seq', s.snapshot_seq,
    'summary', coalesce(c.summary, ''), 'carried', coalesce(c.carried, '{}'),
    'loaded_tools', coalesce(c.loaded_tools, '{}'),
    'flushed_seq', s.flushed_seq, 'compact_after_seq', s.compact_after_seq, 'last_seq', s.last_seq,
    'speaker_id', speaker,
    'resources', (SELECT coalesce(json_agg(json_build_array(x.mount_path, x.kind, x.access, x.status,
                                                            left(x.reason, 1000)) ORDER BY x.mount_path), '[]')
                    FROM sessions_app_resourceattachment x WHERE x.session_id = s.id),
    'earlier_files', CASE WHEN s.snapshot_seq > 0 THEN log_earlier_files(s.id, s.snapshot_seq, c.carried)
                          ELSE '[]' END,
    'has_memory', memory_exists(s.workspace_id, ARRAY[s.workspace_id, s.agent_id, s.id, speaker]));
END $$;

-- Return all that a run reads before its first model call; null without a run. `known_seq` is the last
-- entry that the worker holds of this conversation since `known_snapshot`, if any, and `waiting` are
-- those that no run had taken then: then only newer ones are returned, and `since_known` says so.
CREATE OR REPLACE FUNCTION turn_load(sid uuid, rid uuid, default_environment text, types text[], most int,
  known_snapshot uuid, known_seq bigint, waiting bigint[]) RETURNS json LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; q agent_run_queue; r agent_run_queue; basis json; warm boolean;
BEGIN
  IF rid IS NULL THEN RETURN NULL; END IF;
  SELECT * INTO s FROM agent_sessions WHERE id = sid;
  SELECT * INTO q FROM agent_run_queue WHERE id = rid;
  r := turn_root_row(q);
  basis := context_basis_of(s, q, r, NULL);
  warm := known_seq IS NOT NULL AND known_snapshot IS NOT DISTINCT FROM (basis ->> 'snapshot_id')::uuid;
  RETURN json_build_object('workspace_id', s.workspace_id, 'agent_id', s.agent_id,
    'agent_version_id', s.agent_version_id, 'environment_id', s.environment_id, 'about_id', s.about_id,
    'saw_outside', s.saw_outside, 'provider', s.provider, 'model', s.model,
    'ancestors', s.ancestors, 'outcome', s.outcome::text, 'purpose', q.purpose, 'wishes', r.wishes,
    'recovering', q.attempts > 1 OR q.resumes, 'sender_id', r.created_by_id, 'key_id', r.key_id,
    'awaited', EXISTS (SELECT 1 FROM subagent_spawns w
                        WHERE w.child_session_id = sid AND w.status = 'running'),
    'earlier_tool_calls', CASE WHEN q.resumes THEN (
       SELECT count(*) FROM tool_executions t
        WHERE t.session_id = sid AND t.finished_at IS NOT NULL AND t.decision <> 'deny'
          AND t.workflow_id IS NULL AND t.created_at >= r.started_at) ELSE 0 END,
    'basis', basis, 'binding', session_binding(sid, default_environment)::text, 'since_known', warm,
    'entries', CASE WHEN warm THEN log_entries(sid, types, known_seq, most, waiting, true)
      ELSE log_entries(sid, types, s.snapshot_seq, most, ARRAY(SELECT json_array_elements_text(basis -> 'carried')::bigint), true) END);
END $$;
