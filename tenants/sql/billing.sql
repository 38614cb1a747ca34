-- Billing, one function per step. Purses are locked in the order of their ids, and a call's row before
-- its purses, so that calls cannot deadlock.

CREATE OR REPLACE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF tg_op = 'DELETE' AND current_setting('switchyard.erasing', true) = old.workspace_id::text THEN
    RETURN old;
  END IF;
  -- Only the author may change, to null, when that user is deleted.
  IF tg_op = 'UPDATE' AND new.created_by_id IS NULL
     AND (new.id, new.workspace_id, new.kind, new.amount, new.note, new.call_id, new.created_at)
         IS NOT DISTINCT FROM
         (old.id, old.workspace_id, old.kind, old.amount, old.note, old.call_id, old.created_at) THEN
    RETURN new;
  END IF;
  RAISE EXCEPTION 'the credit ledger is append-only';
END $$;

CREATE OR REPLACE TRIGGER ledger_is_append_only BEFORE UPDATE OR DELETE ON credit_ledger
  FOR EACH ROW EXECUTE FUNCTION refuse_ledger_change();

-- Refuse any write that reserves more than the purse has.
CREATE OR REPLACE FUNCTION refuse_empty_purse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF new.spent + new.reserved > new.ceiling THEN
    RAISE EXCEPTION 'a purse cannot reserve more than it has';
  END IF;
  RETURN new;
END $$;

CREATE OR REPLACE TRIGGER purse_reserves_only_what_it_has BEFORE UPDATE OF reserved ON purses
  FOR EACH ROW WHEN (new.reserved > old.reserved) EXECUTE FUNCTION refuse_empty_purse();

-- Return the amount spent in the current period of a purse.
CREATE OR REPLACE FUNCTION purse_since(period text) RETURNS date LANGUAGE sql STABLE AS $$
  SELECT CASE period WHEN 'day' THEN (now() AT TIME ZONE 'UTC')::date
                     WHEN 'month' THEN date_trunc('month', now() AT TIME ZONE 'UTC')::date END
$$;

CREATE OR REPLACE FUNCTION purse_spent(p purses) RETURNS numeric LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p.since IS DISTINCT FROM purse_since(p.period) THEN 0 ELSE p.spent END
$$;

-- Return what keeps a workspace from new work: that it stores as much as it may, or the first purse of
-- these owners that has nothing left, or less than `amount`. Null if nothing does.
CREATE OR REPLACE FUNCTION purse_short(wid uuid, owners uuid[], amount numeric) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT '{"kind": "storage"}'::jsonb WHERE storage_full(wid) UNION ALL
  (SELECT jsonb_build_object('kind', p.kind, 'owner_id', p.owner_id, 'period', p.period,
           'ceiling', p.ceiling, 'spent', purse_spent(p), 'reserved', p.reserved, 'needed', amount)
    FROM purses p
   WHERE p.workspace_id = wid AND p.owner_id = ANY (owners)
     AND (purse_spent(p) + p.reserved + amount > p.ceiling OR purse_spent(p) >= p.ceiling)
   ORDER BY p.kind = 'workspace' DESC, p.id LIMIT 1) LIMIT 1
$$;

-- Reserve the maximum cost of a call in every purse that pays for it, and insert the call. If a purse
-- lacks the amount, write nothing and return that purse.
CREATE OR REPLACE FUNCTION purse_reserve(wid uuid, owners uuid[], amount numeric, call jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE held uuid[]; short jsonb;
BEGIN
  IF amount > 0 THEN
    SELECT array_agg(p.id) INTO held FROM (
      SELECT id FROM purses WHERE workspace_id = wid AND owner_id = ANY (owners)
       ORDER BY id FOR NO KEY UPDATE) p;
  END IF;
  short := purse_short(wid, owners, amount);
  IF short IS NOT NULL THEN RETURN short; END IF;
  IF held IS NOT NULL THEN
    UPDATE purses p SET spent = purse_spent(p), since = purse_since(p.period),
      reserved = p.reserved + amount WHERE p.id = ANY (held);
  END IF;
  INSERT INTO model_calls (id, workspace_id, agent_id, session_id, run_id, key_id, created_by_id, epoch,
    provider, model, purpose, reserved, purses)
  VALUES ((call ->> 'id')::uuid, wid, (call ->> 'agent_id')::uuid, (call ->> 'session_id')::uuid,
    (call ->> 'run_id')::uuid, (call ->> 'key_id')::uuid, (call ->> 'user_id')::uuid,
    (call ->> 'epoch')::bigint, call ->> 'provider', call ->> 'model', call ->> 'purpose', amount,
    coalesce(held, '{}'));
  RETURN NULL;
END $$;

-- Return the session that made a call.
CREATE OR REPLACE FUNCTION model_call_session(call uuid) RETURNS uuid LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT c.session_id FROM model_calls c WHERE c.id = call);
END $$;

-- Charge a call its cost, once. Return false if it was settled before.
CREATE OR REPLACE FUNCTION purse_settle(call uuid, outcome text, price numeric, input bigint, output bigint,
  cached bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE c model_calls;
BEGIN
  SELECT * INTO c FROM model_calls WHERE id = call AND state = 'reserved' FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  IF c.reserved > 0 OR price > 0 THEN
    PERFORM 1 FROM purses WHERE id = ANY (c.purses) ORDER BY id FOR NO KEY UPDATE;
    UPDATE purses p SET reserved = p.reserved - c.reserved, spent = purse_spent(p) + price,
      since = purse_since(p.period), debt = p.debt + greatest(price - c.reserved, 0)
     WHERE p.id = ANY (c.purses);
  END IF;
  UPDATE model_calls SET state = outcome, cost = price, input_tokens = input, output_tokens = output,
    cached_tokens = cached, finished_at = clock_timestamp() WHERE id = call;
  IF price > 0 THEN
    INSERT INTO credit_ledger (id, workspace_id, kind, amount, call_id, created_by_id)
    VALUES (gen_random_uuid(), c.workspace_id, 'charge', -price, call, c.created_by_id);
  END IF;
  RETURN true;
END $$;

-- Add credits to a workspace, or remove some.
CREATE OR REPLACE FUNCTION credit_add(wid uuid, what text, amount numeric, note text, author uuid, entry uuid)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO purses (id, workspace_id, kind, owner_id) VALUES (gen_random_uuid(), wid, 'workspace', wid)
    ON CONFLICT DO NOTHING;
  UPDATE purses SET ceiling = ceiling + amount, low_since = NULL
   WHERE workspace_id = wid AND kind = 'workspace' AND owner_id = wid;
  INSERT INTO credit_ledger (id, workspace_id, kind, amount, note, created_by_id)
  VALUES (entry, wid, what, amount, note, author);
END $$;

-- Charge `count` minutes of a sandbox from `first` on to every purse of these owners, except minutes
-- that were charged before. A process that charges the same minute waits for the first one, and then
-- adds nothing. `member` is the one whose work it was; usage is reported by it.
CREATE OR REPLACE FUNCTION sandbox_charge(wid uuid, owners uuid[], box text, first timestamptz, count int,
  price numeric, words text, entry uuid, member uuid) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  INSERT INTO sandbox_minutes (id, workspace_id, sandbox, minute)
  SELECT gen_random_uuid(), wid, box, date_trunc('minute', first) + make_interval(mins => nth)
    FROM generate_series(0, count - 1) nth ORDER BY nth
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS n = ROW_COUNT;
  IF n = 0 THEN RETURN 0; END IF;
  INSERT INTO purses (id, workspace_id, kind, owner_id) VALUES (gen_random_uuid(), wid, 'workspace', wid)
    ON CONFLICT DO NOTHING;
  PERFORM 1 FROM purses WHERE workspace_id = wid AND owner_id = ANY (owners) ORDER BY id FOR NO KEY UPDATE;
  UPDATE purses p SET spent = purse_spent(p) + price * n, since = purse_since(p.period)
   WHERE p.workspace_id = wid AND p.owner_id = ANY (owners);
  INSERT INTO credit_ledger (id, workspace_id, kind, amount, note, created_by_id)
  VALUES (entry, wid, 'sandbox', -price * n, words, member);
  RETURN n;
END $$;
