-- Return the agent of a workspace that may be given work, by its id or by its exact name; null if there
-- is none, or if several have the name. `AgentQuerySet.offered` is the same rule.
CREATE OR REPLACE FUNCTION agent_offered(wid uuid, aid uuid, agent_name text) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE found uuid[];
BEGIN
  IF aid IS NOT NULL THEN
    RETURN (SELECT a.id FROM agents_agent a WHERE a.id = aid AND a.workspace_id = wid
       AND a.archived_at IS NULL AND a.role = 'agent' AND NOT a.is_draft);
  END IF;
  SELECT array_agg(a.id) INTO found FROM agents_agent a JOIN agents_agentversion v ON v.id = a.current_id
   WHERE a.workspace_id = wid AND v.name = agent_name
     AND a.archived_at IS NULL AND a.role = 'agent' AND NOT a.is_draft;
  RETURN CASE WHEN cardinality(found) = 1 THEN found[1] END;
END $$;
