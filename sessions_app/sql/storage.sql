-- What tool calls take in the database: their input when they are written, their output when it comes.

CREATE OR REPLACE FUNCTION execution_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF tg_op = 'INSERT' THEN
    PERFORM storage_add(new.workspace_id, 500 + pg_column_size(new.input));
  END IF;
  IF new.output IS NOT NULL THEN
    PERFORM storage_add(new.workspace_id, pg_column_size(new.output));
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER execution_is_counted AFTER INSERT ON tool_executions
  FOR EACH ROW EXECUTE FUNCTION execution_grows();

CREATE OR REPLACE TRIGGER execution_output_is_counted AFTER UPDATE OF output ON tool_executions
  FOR EACH ROW WHEN (old.output IS NULL AND new.output IS NOT NULL) EXECUTE FUNCTION execution_grows();

-- Subtract what a session takes, before it is deleted.
CREATE OR REPLACE FUNCTION session_gives_back(sid uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM storage_add(m.workspace_id, -sum(pg_column_size(m.payload) + 300)::bigint)
     FROM session_messages m WHERE m.session_id = sid GROUP BY m.workspace_id;
  PERFORM storage_add(e.workspace_id, -sum(500 + pg_column_size(e.input) + coalesce(pg_column_size(e.output), 0))::bigint)
     FROM tool_executions e WHERE e.session_id = sid GROUP BY e.workspace_id;
END $$;
