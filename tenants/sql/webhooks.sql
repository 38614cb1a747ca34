-- Outgoing webhooks: an event becomes one delivery per endpoint in the commit that writes it.

-- Return a UUID version 7, also on servers without uuidv7().
CREATE OR REPLACE FUNCTION webhook_delivery_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
          || substr(chance, 1, 3) || substr('89ab', 1 + floor(random() * 4)::int, 1)
          || substr(chance, 18, 15))::uuid
    FROM replace(gen_random_uuid()::text, '-', '') AS chance
$$;

-- Return whether one of these patterns matches the type. LIKE would treat underscores as wildcards.
CREATE OR REPLACE FUNCTION webhook_wants(globs text[], type text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT EXISTS (SELECT 1 FROM unnest(globs) g
                  WHERE type LIKE replace(replace(g, '_', '\_'), '*', '%'))
$$;

-- Return a time in the format of the API.
CREATE OR REPLACE FUNCTION webhook_moment(at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT replace(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '.000000Z', 'Z')
$$;

-- Return whether a workspace has a webhook, so that no event is described for none.
CREATE OR REPLACE FUNCTION webhook_exists(ws uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT 1 FROM webhooks w WHERE w.workspace_id = ws AND w.active);
END $$;

-- Queue several events in order; `bodies` is [{type, timestamp, data}], as they are sent. The commit
-- wakes the senders. The webhooks are locked until then, because deleting one in between would fail
-- the caller's transaction.
CREATE OR REPLACE FUNCTION webhook_announce(ws uuid, bodies jsonb) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  IF NOT webhook_exists(ws) THEN RETURN 0; END IF;
  INSERT INTO webhook_deliveries
    (id, workspace_id, webhook_id, type, body, next_attempt_at, created_at)
  WITH told AS MATERIALIZED (
    SELECT w.id, w.events FROM webhooks w
     WHERE w.workspace_id = ws AND w.active AND EXISTS (
       SELECT 1 FROM jsonb_array_elements(bodies) e WHERE webhook_wants(w.events, e ->> 'type'))
     ORDER BY w.id FOR KEY SHARE OF w)
  SELECT webhook_delivery_id(), ws, w.id, e.event ->> 'type', e.event, clock_timestamp(),
         clock_timestamp()
    FROM jsonb_array_elements(bodies) WITH ORDINALITY AS e(event, nth)
    JOIN told w ON webhook_wants(w.events, e.event ->> 'type')
   ORDER BY e.nth;
  GET DIAGNOSTICS n = ROW_COUNT;
  IF n > 0 THEN
    PERFORM pg_notify('switchyard_webhooks', w.id::text) FROM webhooks w
     WHERE w.workspace_id = ws AND w.active AND EXISTS (
       SELECT 1 FROM jsonb_array_elements(bodies) e WHERE webhook_wants(w.events, e ->> 'type'));
  END IF;
  RETURN n;
END $$;
