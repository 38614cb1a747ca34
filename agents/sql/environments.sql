-- Return the environment of a version of an agent: its own, or the workspace's environment of this name.
CREATE OR REPLACE FUNCTION environment_of_version(version uuid, default_name text) RETURNS uuid
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT coalesce(v.environment_id, (
            SELECT e.id FROM agents_environment e
             WHERE e.workspace_id = v.workspace_id AND e.name = default_name))
            FROM agents_agentversion v WHERE v.id = version);
END $$;
