-- Return whether one of these owners has a document.
CREATE OR REPLACE FUNCTION memory_exists(ws uuid, owners uuid[]) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT 1 FROM agent_memory_entries e
                  WHERE e.workspace_id = ws AND e.owner_id = ANY (owners) AND e.deleted_at IS NULL);
END $$;
