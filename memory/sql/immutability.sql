-- Versions of memory documents never change, except by redaction; a deleted author is forgotten.

CREATE OR REPLACE FUNCTION refuse_memory_version_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (new.id, new.workspace_id, new.entry_id, new.number, new.bytes, new.trust, new.author, new.tool,
      new.session_id, new.run_id, new.call_id, new.event_id, new.created_at)
     IS DISTINCT FROM
     (old.id, old.workspace_id, old.entry_id, old.number, old.bytes, old.trust, old.author, old.tool,
      old.session_id, old.run_id, old.call_id, old.event_id, old.created_at)
     OR (new.created_by_id IS DISTINCT FROM old.created_by_id AND new.created_by_id IS NOT NULL) THEN
    RAISE EXCEPTION 'memory versions are immutable';
  END IF;
  IF old.redacted_at IS NULL AND new.redacted_at IS NOT NULL AND new.content = '' AND new.hash = '' THEN
    RETURN new;
  END IF;
  IF (new.content, new.hash, new.redacted_at) IS DISTINCT FROM (old.content, old.hash, old.redacted_at)
     OR (new.redacted_by_id IS DISTINCT FROM old.redacted_by_id AND new.redacted_by_id IS NOT NULL) THEN
    RAISE EXCEPTION 'memory versions are immutable';
  END IF;
  RETURN new;
END $$;
CREATE OR REPLACE TRIGGER memory_version_is_immutable BEFORE UPDATE ON memory_memoryversion
  FOR EACH ROW EXECUTE FUNCTION refuse_memory_version_change();
