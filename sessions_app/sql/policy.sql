-- What binds a session, for the policy of its tools (`tools_app/policy/effective.py`).

-- Return the session at depth 0, its parent at depth 1, and so on up to the root.
CREATE OR REPLACE FUNCTION session_family(sid uuid) RETURNS TABLE (depth int, id uuid, workspace_id uuid,
  agent_id uuid, agent_version_id uuid, environment_id uuid) LANGUAGE plpgsql STABLE ROWS 3 AS $$
BEGIN
  RETURN QUERY SELECT (cardinality(s.ancestors) + 1 - u.nth)::int, a.id, a.workspace_id, a.agent_id,
                      a.agent_version_id, a.environment_id
    FROM agent_sessions s, unnest(s.ancestors || s.id) WITH ORDINALITY u(id, nth)
    JOIN agent_sessions a ON a.id = u.id
   WHERE s.id = sid;
END $$;

-- Return the rules that people have allowed for the whole session.
CREATE OR REPLACE FUNCTION session_grants(sid uuid) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT array_agg(DISTINCT a.rule) FROM approvals a
           WHERE a.session_id = sid AND a.status = 'allowed' AND a.scope = 'session');
END $$;
