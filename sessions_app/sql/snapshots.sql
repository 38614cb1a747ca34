-- A context snapshot never changes, except that it can be undone once.

CREATE OR REPLACE FUNCTION refuse_snapshot_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (to_jsonb(new) - '{undone_at,undone_by_id,created_by_id}'::text[])
     IS DISTINCT FROM (to_jsonb(old) - '{undone_at,undone_by_id,created_by_id}'::text[])
     OR (new.created_by_id IS DISTINCT FROM old.created_by_id AND new.created_by_id IS NOT NULL)
     OR (old.undone_at IS NOT NULL AND (new.undone_at IS DISTINCT FROM old.undone_at
         OR (new.undone_by_id IS DISTINCT FROM old.undone_by_id AND new.undone_by_id IS NOT NULL))) THEN
    RAISE EXCEPTION 'snapshots are immutable';
  END IF;
  RETURN new;
END $$;
CREATE OR REPLACE TRIGGER snapshot_is_immutable BEFORE UPDATE ON agent_context_snapshots
  FOR EACH ROW EXECUTE FUNCTION refuse_snapshot_change();
