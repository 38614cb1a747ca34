-- Usage per day. A call that has ended is added to `usage_rollups` in the background, by `usage_fold`.
-- Until then it is not `folded`, and readers add its row itself: no turn writes a sum that another turn
-- writes too. A folded call that changes or is deleted leaves the sums in the same commit.

-- Return the sums that a call belongs to.
CREATE OR REPLACE FUNCTION usage_keys(c model_calls) RETURNS TABLE (dimension text, key text)
LANGUAGE sql STABLE AS $$
  VALUES ('total', ''), ('member', coalesce(c.created_by_id::text, '')),
         ('agent', coalesce(c.agent_id::text, '')), ('model', c.provider || '/' || c.model),
         ('key', coalesce(c.key_id::text, '')), ('session', coalesce(c.session_id::text, ''))
$$;

-- Add these calls to the sums, or subtract them if `sign` is -1. The caller holds `usage_lock`.
CREATE OR REPLACE FUNCTION usage_add(calls model_calls[], sign int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO usage_rollups AS r
    (workspace_id, dimension, day, key, calls, input_tokens, output_tokens, cached_tokens, cost)
  SELECT c.workspace_id, k.dimension, (c.created_at AT TIME ZONE 'UTC')::date, k.key, sign * count(*),
         sign * sum(c.input_tokens), sign * sum(c.output_tokens),
         sign * sum(c.cached_tokens), sign * sum(c.cost)
    FROM unnest(calls) c, usage_keys(c) k GROUP BY 1, 2, 3, 4
  ON CONFLICT (workspace_id, dimension, day, key) DO UPDATE SET calls = r.calls + excluded.calls,
    input_tokens = r.input_tokens + excluded.input_tokens,
    output_tokens = r.output_tokens + excluded.output_tokens,
    cached_tokens = r.cached_tokens + excluded.cached_tokens, cost = r.cost + excluded.cost;
  INSERT INTO usage_sessions AS s (workspace_id, key, first_day, last_day, calls, cost)
  SELECT c.workspace_id, coalesce(c.session_id::text, ''), min((c.created_at AT TIME ZONE 'UTC')::date),
         max((c.created_at AT TIME ZONE 'UTC')::date), sign * count(*), sign * sum(c.cost)
    FROM unnest(calls) c GROUP BY 1, 2
  ON CONFLICT (workspace_id, key) DO UPDATE SET calls = s.calls + excluded.calls,
    cost = s.cost + excluded.cost, first_day = least(s.first_day, excluded.first_day),
    last_day = greatest(s.last_day, excluded.last_day)
$$;

-- Only one transaction at a time writes the sums of calls, so that none can deadlock over them.
CREATE OR REPLACE FUNCTION usage_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 7243002::bigint $$;

-- Fold up to `most` calls that have ended, and return their number.
CREATE OR REPLACE FUNCTION usage_fold(most int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE ended model_calls[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(usage_lock()) THEN RETURN 0; END IF;
  WITH taken AS (
    SELECT id FROM model_calls WHERE NOT folded AND state <> 'reserved'
     LIMIT most FOR NO KEY UPDATE SKIP LOCKED),
  marked AS (UPDATE model_calls c SET folded = true FROM taken t WHERE c.id = t.id RETURNING c)
  SELECT array_agg(m.c) INTO ended FROM marked m;
  PERFORM usage_add(ended, 1);
  RETURN coalesce(cardinality(ended), 0);
END $$;

CREATE OR REPLACE FUNCTION usage_unfold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(usage_lock());
  PERFORM usage_add(ARRAY[old], -1);
  IF tg_op = 'DELETE' THEN RETURN old; END IF;
  new.folded := false;
  RETURN new;
END $$;

CREATE OR REPLACE TRIGGER changed_call_is_unfolded BEFORE UPDATE ON model_calls
  FOR EACH ROW WHEN (old.folded AND new.folded) EXECUTE FUNCTION usage_unfold();

CREATE OR REPLACE TRIGGER deleted_call_is_unfolded BEFORE DELETE ON model_calls FOR EACH ROW
  WHEN (old.folded AND current_setting('switchyard.erasing', true) IS DISTINCT FROM old.workspace_id::text)
  EXECUTE FUNCTION usage_unfold();

-- Sandboxes are charged under the lock of the workspace's purse, so their sum is written at once, for
-- the member whose run it was.
CREATE OR REPLACE FUNCTION usage_add_sandbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_rollups AS r
    (workspace_id, dimension, day, key, calls, input_tokens, output_tokens, cost)
  VALUES (new.workspace_id, 'sandbox', (new.created_at AT TIME ZONE 'UTC')::date,
          coalesce(new.created_by_id::text, ''), 1, 0, 0, -new.amount)
  ON CONFLICT (workspace_id, dimension, day, key)
    DO UPDATE SET calls = r.calls + 1, cost = r.cost + excluded.cost;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER sandbox_charge_is_summed_up AFTER INSERT ON credit_ledger
  FOR EACH ROW WHEN (new.kind = 'sandbox') EXECUTE FUNCTION usage_add_sandbox();

-- Runs last in an erasure, after the deleted calls: a fold that the erasure waited for is seen here.
CREATE OR REPLACE FUNCTION usage_erase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM usage_rollups r WHERE r.workspace_id = old.id;
  DELETE FROM usage_sessions s WHERE s.workspace_id = old.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER usage_is_erased_with_its_workspace AFTER DELETE ON tenants_workspace
  FOR EACH ROW EXECUTE FUNCTION usage_erase();

-- Return the usage of these days along one dimension: the sums, and the calls that are not folded.
CREATE OR REPLACE FUNCTION usage_between(wid uuid, along text, first date, last date)
RETURNS TABLE (day date, key text, calls bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint,
  cost numeric)
LANGUAGE sql STABLE AS $$
  SELECT r.day, r.key, r.calls, r.input_tokens, r.output_tokens, r.cached_tokens, r.cost FROM usage_rollups r
   WHERE r.workspace_id = wid AND r.dimension = along AND r.day BETWEEN first AND last
  UNION ALL
  SELECT (c.created_at AT TIME ZONE 'UTC')::date, k.key, 1, c.input_tokens, c.output_tokens, c.cached_tokens, c.cost
    FROM model_calls c, usage_keys(c) k
   WHERE c.workspace_id = wid AND NOT c.folded AND k.dimension = along
     AND c.created_at >= first::timestamp AT TIME ZONE 'UTC'
     AND c.created_at < (last + 1)::timestamp AT TIME ZONE 'UTC'
$$;

-- Return the most expensive sessions of these days without summing up every session. A session's usage
-- on all days is at least its usage on some days, so sessions are taken in that order, `most` of them.
-- A row is certain if no session that was not taken can come before it; `is_all` if none was left out.
CREATE OR REPLACE FUNCTION usage_of_sessions(wid uuid, first date, last date, most int)
RETURNS TABLE (key text, calls bigint, input_tokens bigint, output_tokens bigint, cached_tokens bigint, cost numeric,
  is_certain boolean, is_all boolean)
LANGUAGE sql STABLE AS $$
  WITH expensive AS MATERIALIZED (
    SELECT s.cost, s.calls, s.key FROM usage_sessions s
     WHERE s.workspace_id = wid AND s.first_day <= last AND s.last_day >= first
     ORDER BY s.cost DESC, s.calls DESC, s.key DESC LIMIT most),
  bound AS (SELECT e.cost, e.calls, e.key FROM expensive e ORDER BY 1, 2, 3 LIMIT 1),
  unfolded AS MATERIALIZED (
    SELECT coalesce(c.session_id::text, '') AS key, 1 AS calls, c.input_tokens, c.output_tokens, c.cached_tokens, c.cost
      FROM model_calls c WHERE c.workspace_id = wid AND NOT c.folded
       AND c.created_at >= first::timestamp AT TIME ZONE 'UTC'
       AND c.created_at < (last + 1)::timestamp AT TIME ZONE 'UTC'),
  parts AS (
    SELECT r.key, r.calls, r.input_tokens, r.output_tokens, r.cached_tokens, r.cost
      FROM (SELECT e.key FROM expensive e UNION SELECT u.key FROM unfolded u) k
      JOIN usage_rollups r ON r.workspace_id = wid AND r.dimension = 'session' AND r.key = k.key
       AND r.day BETWEEN first AND last
    UNION ALL SELECT u.key, u.calls, u.input_tokens, u.output_tokens, u.cached_tokens, u.cost FROM unfolded u),
  sums AS (
    SELECT p.key, sum(p.calls)::bigint AS calls, sum(p.input_tokens)::bigint AS input_tokens,
           sum(p.output_tokens)::bigint AS output_tokens, sum(p.cached_tokens)::bigint AS cached_tokens,
           sum(p.cost) AS cost
      FROM parts p GROUP BY p.key HAVING sum(p.calls) > 0)
  SELECT s.key, s.calls, s.input_tokens, s.output_tokens, s.cached_tokens, s.cost,
         NOT EXISTS (SELECT 1 FROM bound b WHERE (b.cost, b.calls, b.key) > (s.cost, s.calls, s.key)),
         (SELECT count(*) < most FROM expensive)
    FROM sums s ORDER BY s.cost DESC, s.calls DESC, s.key DESC
$$;
