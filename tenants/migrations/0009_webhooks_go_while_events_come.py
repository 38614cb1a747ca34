"""Whoever announces an event holds the endpoints that are told, so that none is deleted before the commit."""

from django.db import migrations

ANNOUNCE = r"""
-- Several events at once, in order: `bodies` is [{type, timestamp, data}], the bodies as they are
-- sent. Wakes the senders with the commit. The endpoints are held until then, as the foreign key
-- does at the commit anyway: one that was deleted in between would fail the writer's transaction.
CREATE OR REPLACE FUNCTION webhook_announce(ws uuid, bodies jsonb) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  IF NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.workspace_id = ws AND w.active) THEN RETURN 0; END IF;
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
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0008_every_purse_pays_for_minutes")]

    operations = [migrations.RunSQL(ANNOUNCE, migrations.RunSQL.noop)]
