-- What binds the next run of a session, in one call.

-- Return the policies of the session and of those above it, and the custom tools, MCP servers, grants
-- and skills that it has; null if there is no such session. A server is given as `id@revision`: its
-- tools can be large, and each process caches them. The plan never depends on the session.
CREATE OR REPLACE FUNCTION session_binding(sid uuid, default_environment text) RETURNS json LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan AS $$
DECLARE wid uuid; aid uuid; layers json;
BEGIN
  SELECT json_agg(json_build_array(f.depth, p.layer, p.profile, p.allowed_tools, p.denied_tools,
                                   p.ask_tools, p.approved_tools, p.max_tool_calls_per_turn,
                                   p.peers)),
         (array_agg(f.workspace_id) FILTER (WHERE f.depth = 0))[1],
         (array_agg(f.agent_id) FILTER (WHERE f.depth = 0))[1] INTO layers, wid, aid
    FROM session_family(sid) f
    LEFT JOIN agent_tool_policies p ON p.subject_id = ANY (ARRAY[f.id, f.agent_id, f.workspace_id,
           coalesce(f.environment_id, environment_of_version(f.agent_version_id, default_environment))]);
  IF wid IS NULL THEN RETURN NULL; END IF;
  RETURN json_build_object('layers', layers,
    'custom_tools', (SELECT jsonb_agg(jsonb_build_object(
           'name', c.name, 'description', c.description, 'permission', c.permission,
           'timeout_seconds', c.timeout_seconds, 'input_schema', c.input_schema))::text
       FROM agent_custom_tools c WHERE c.workspace_id = wid),
    'mcp_servers', (SELECT string_agg(m.id || '@' || m.revision, ',' ORDER BY m.id)
       FROM mcp_servers m WHERE m.enabled AND m.workspace_id = wid),
    'grants', session_grants(sid),
    'skills', (SELECT json_agg(json_build_array(k.name, k.description) ORDER BY k.name) FROM (
       SELECT w.name, w.description FROM agent_skills w WHERE w.workspace_id = wid AND w.enabled
          AND (w.agents = '{}' OR w.agents @> ARRAY[aid]) ORDER BY w.name LIMIT 50) k));
END $$;
