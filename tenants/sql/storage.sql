-- The bytes of each workspace in the database. A writer adds a row of its own to `storage_growth`;
-- `storage_fold` moves the rows into `workspace_storage` in the background. So no transaction waits for
-- another one, nothing is summed up where messages are accepted, and a sum is a few seconds old.

CREATE OR REPLACE FUNCTION storage_add(wid uuid, added bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF added <> 0 THEN
    INSERT INTO storage_growth (workspace_id, bytes) VALUES (wid, added);
  END IF;
END $$;

-- Add up to `most` rows to the sums, mark the workspaces that have reached `quota`, and return the number
-- of rows. Null is no quota. Only one transaction at a time folds.
CREATE OR REPLACE FUNCTION storage_fold(most int, quota bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE folded int;
BEGIN
  IF NOT pg_try_advisory_xact_lock(7243004) THEN RETURN 0; END IF;
  WITH taken AS (
    DELETE FROM storage_growth g WHERE g.id IN (SELECT id FROM storage_growth ORDER BY id LIMIT most)
    RETURNING g.workspace_id, g.bytes),
  summed AS (
    INSERT INTO workspace_storage AS s (workspace_id, bytes)
    SELECT t.workspace_id, sum(t.bytes) FROM taken t
      JOIN tenants_workspace w ON w.id = t.workspace_id GROUP BY 1
    ON CONFLICT (workspace_id) DO UPDATE SET bytes = s.bytes + excluded.bytes)
  SELECT count(*) INTO folded FROM taken;
  UPDATE workspace_storage s SET is_full = NOT s.is_full
   WHERE s.is_full IS DISTINCT FROM (quota IS NOT NULL AND s.bytes >= quota);
  RETURN folded;
END $$;

-- Return whether a workspace has reached its quota.
CREATE OR REPLACE FUNCTION storage_full(wid uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT 1 FROM workspace_storage s WHERE s.workspace_id = wid AND s.is_full)
$$;

CREATE OR REPLACE FUNCTION storage_erase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM storage_growth g WHERE g.workspace_id = old.id;
  DELETE FROM workspace_storage s WHERE s.workspace_id = old.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER storage_is_erased_with_its_workspace AFTER DELETE ON tenants_workspace
  FOR EACH ROW EXECUTE FUNCTION storage_erase();
