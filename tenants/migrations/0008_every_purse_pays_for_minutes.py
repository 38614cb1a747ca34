"""Minutes of sandboxes are paid by every purse of the chain, as calls of models are."""

from django.db import migrations

CREDITS = """
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
"""
MINUTES = """
DROP FUNCTION sandbox_charge(uuid, text, timestamptz, int, numeric, text, uuid);
-- Charge `count` minutes of a sandbox from `first` on to every purse of these owners; those that
-- were charged before are left out. Of two who charge the same minute the second waits for the
-- first, and then adds nothing.
CREATE FUNCTION sandbox_charge(wid uuid, owners uuid[], box text, first timestamptz, count int,
  price numeric, words text, entry uuid) RETURNS int LANGUAGE plpgsql AS $$
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
  INSERT INTO credit_ledger (id, workspace_id, kind, amount, note)
  VALUES (entry, wid, 'sandbox', -price * n, words);
  RETURN n;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0007_sandbox_minutes")]
    operations = [
        migrations.RunSQL(MINUTES, migrations.RunSQL.noop),
        migrations.RunSQL(CREDITS, migrations.RunSQL.noop),
    ]
