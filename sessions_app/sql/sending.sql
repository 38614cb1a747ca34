-- Accept a message for the session of an agent and a key in one statement. If anything is unusual, return
-- nothing: the session does not exist yet or builds an agent, there is no such agent, or a purse is
-- empty. The caller then goes step by step, which creates the session or raises the error.
CREATE OR REPLACE FUNCTION session_send(wid uuid, aid uuid, agent_name text, skey text, event jsonb, author uuid,
  mode text, prio smallint, run_id uuid, session_limit int, workspace_limit int, new_title text,
  OUT sid uuid, OUT seq bigint, OUT run uuid, OUT event_id uuid, OUT replayed boolean)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; agent uuid := agent_offered(wid, aid, agent_name);
BEGIN
  SELECT * INTO s FROM agent_sessions w
   WHERE w.agent_id = agent AND w.session_key = skey AND w.workspace_id = wid AND w.about_id IS NULL;
  IF NOT FOUND OR purse_short(wid, ARRAY[wid, agent, s.id, s.parent_id, author,
                                         (event ->> 'key_id')::uuid], 0) IS NOT NULL THEN
    RETURN;
  END IF;
  SELECT a.seq, a.run, a.event_id, a.replayed INTO seq, run, event_id, replayed
    FROM lane_accept(s.id, event, author, mode, prio, run_id, session_limit, workspace_limit) a;
  sid := s.id;
  IF s.title = '' AND new_title <> '' THEN
    UPDATE agent_sessions w SET title = new_title WHERE w.id = s.id AND w.title = '';
  END IF;
END $$;
