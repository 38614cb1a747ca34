-- What documents take in the database: the text of every version, until it is redacted.

CREATE OR REPLACE FUNCTION version_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM storage_add(new.workspace_id, CASE tg_op WHEN 'INSERT' THEN 300 + new.bytes
                                             ELSE octet_length(new.content) - octet_length(old.content) END);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER version_is_counted AFTER INSERT ON memory_memoryversion
  FOR EACH ROW EXECUTE FUNCTION version_grows();

CREATE OR REPLACE TRIGGER redacted_version_is_counted AFTER UPDATE OF content ON memory_memoryversion
  FOR EACH ROW WHEN (new.redacted_at IS NOT NULL AND old.redacted_at IS NULL) EXECUTE FUNCTION version_grows();
