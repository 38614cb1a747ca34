"""Minutes of sandboxes are charged once each."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import tenants.ids

FORWARD = """
-- Charge `count` minutes of a sandbox from `first` on; those that were charged before are left out.
-- Of two who charge the same minute the second waits for the first, and then adds nothing.
CREATE FUNCTION sandbox_charge(wid uuid, box text, first timestamptz, count int, price numeric,
  words text, entry uuid) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
  INSERT INTO sandbox_minutes (id, workspace_id, sandbox, minute)
  SELECT gen_random_uuid(), wid, box, date_trunc('minute', first) + make_interval(mins => nth)
    FROM generate_series(0, count - 1) nth ORDER BY nth
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS n = ROW_COUNT;
  IF n > 0 THEN
    PERFORM credit_add(wid, 'sandbox', -price * n, words, NULL, entry);
  END IF;
  RETURN n;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0006_webhooks_inbox")]

    operations = [
        migrations.CreateModel(
            name="SandboxMinute",
            fields=[
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("id", models.UUIDField(default=tenants.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("sandbox", models.CharField(max_length=100)),
                ("minute", models.DateTimeField()),
                ("created_by", models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("workspace", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tenants.workspace")),
            ],
            options={
                "db_table": "sandbox_minutes",
                "ordering": ["-minute"],
                "indexes": [models.Index(fields=["minute"], name="sandbox_minute_by_time")],
                "constraints": [models.UniqueConstraint(fields=("sandbox", "minute"), name="sandbox_minute_is_charged_once")],
            },
        ),
        migrations.RunSQL(FORWARD, "DROP FUNCTION sandbox_charge"),
    ]
