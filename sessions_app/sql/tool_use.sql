-- Tool calls per day, kept like the usage of models: a call that has ended is folded in the background,
-- readers add the calls that are not folded, and a folded call that changes leaves the sums at once.

-- Return how long a call took, in milliseconds; null if it did not run.
CREATE OR REPLACE FUNCTION tool_use_ms(e tool_executions) RETURNS numeric LANGUAGE sql STABLE AS $$
  SELECT round(extract(epoch FROM greatest(e.finished_at, e.started_at) - e.started_at) * 1000, 3)
   WHERE e.finished_at IS NOT NULL
$$;

-- Return the bucket of a duration. Durations of one bucket differ by less than a tenth.
CREATE OR REPLACE FUNCTION tool_use_bucket(ms numeric) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN ms IS NULL THEN -1000
              ELSE floor(ln(greatest(ms, 0.001)::float8) / ln(1.1::float8)) END::smallint
$$;

-- Add these calls to the sums, or subtract them if `sign` is -1. The caller holds `tool_use_lock`.
CREATE OR REPLACE FUNCTION tool_use_add(calls tool_executions[], sign int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO tool_use_rollups AS r (workspace_id, day, name, state, decision, bucket, calls, ms)
  SELECT e.workspace_id, (e.created_at AT TIME ZONE 'UTC')::date, e.name, e.state, e.decision,
         tool_use_bucket(tool_use_ms(e)), sign * count(*), sign * coalesce(sum(tool_use_ms(e)), 0)
    FROM unnest(calls) e GROUP BY 1, 2, 3, 4, 5, 6
  ON CONFLICT (workspace_id, day, name, state, decision, bucket)
    DO UPDATE SET calls = r.calls + excluded.calls, ms = r.ms + excluded.ms
$$;

-- Only one transaction at a time writes the sums, so that none can deadlock over them.
CREATE OR REPLACE FUNCTION tool_use_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 7243003::bigint $$;

-- Fold up to `most` calls that have ended, and return their number.
CREATE OR REPLACE FUNCTION tool_use_fold(most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE ended tool_executions[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(tool_use_lock()) THEN RETURN 0; END IF;
  WITH taken AS (
    SELECT id FROM tool_executions
     WHERE NOT folded AND state NOT IN ('requested', 'awaiting_approval', 'running')
     LIMIT most FOR NO KEY UPDATE SKIP LOCKED),
  marked AS (UPDATE tool_executions e SET folded = true FROM taken t WHERE e.id = t.id RETURNING e)
  SELECT array_agg(m.e) INTO ended FROM marked m;
  PERFORM tool_use_add(ended, 1);
  RETURN coalesce(cardinality(ended), 0);
END $$;

CREATE OR REPLACE FUNCTION tool_use_unfold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(tool_use_lock());
  PERFORM tool_use_add(ARRAY[old], -1);
  IF tg_op = 'DELETE' THEN RETURN old; END IF;
  new.folded := false;
  RETURN new;
END $$;

CREATE OR REPLACE TRIGGER changed_execution_is_unfolded BEFORE UPDATE ON tool_executions
  FOR EACH ROW WHEN (old.folded AND new.folded) EXECUTE FUNCTION tool_use_unfold();

CREATE OR REPLACE TRIGGER deleted_execution_is_unfolded BEFORE DELETE ON tool_executions FOR EACH ROW
  WHEN (old.folded AND current_setting('switchyard.erasing', true) IS DISTINCT FROM old.workspace_id::text)
  EXECUTE FUNCTION tool_use_unfold();

-- Runs last in an erasure, after the deleted calls: a fold that the erasure waited for is seen here.
CREATE OR REPLACE FUNCTION tool_use_erase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM tool_use_rollups r WHERE r.workspace_id = old.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER tool_use_is_erased_with_its_workspace AFTER DELETE ON tenants_workspace
  FOR EACH ROW EXECUTE FUNCTION tool_use_erase();

-- Return the calls of these days: the sums, and the calls that are not folded.
CREATE OR REPLACE FUNCTION tool_use_between(wid uuid, first date, last date)
RETURNS TABLE (name text, state text, decision text, bucket smallint, calls bigint, ms numeric)
LANGUAGE sql STABLE AS $$
  SELECT r.name, r.state, r.decision, r.bucket, r.calls, r.ms FROM tool_use_rollups r
   WHERE r.workspace_id = wid AND r.day BETWEEN first AND last
  UNION ALL
  SELECT e.name, e.state, e.decision, tool_use_bucket(tool_use_ms(e)), 1, coalesce(tool_use_ms(e), 0)
    FROM tool_executions e
   WHERE e.workspace_id = wid AND NOT e.folded
     AND e.created_at >= first::timestamp AT TIME ZONE 'UTC'
     AND e.created_at < (last + 1)::timestamp AT TIME ZONE 'UTC'
$$;
