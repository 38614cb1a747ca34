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
