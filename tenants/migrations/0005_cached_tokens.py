"""Adds the cached tokens to the sums of usage."""

from django.db import migrations, models

# Their rows have another column; they are installed again after this migration.
DROP = """
DROP FUNCTION IF EXISTS usage_between(uuid, text, date, date);
DROP FUNCTION IF EXISTS usage_of_sessions(uuid, date, date, int);
"""
SUM_UP = """
UPDATE usage_rollups r SET cached_tokens = s.cached FROM (
  SELECT c.workspace_id, k.dimension, (c.created_at AT TIME ZONE 'UTC')::date AS day, k.key,
         sum(c.cached_tokens) AS cached
    FROM model_calls c CROSS JOIN LATERAL (
      VALUES ('total', ''), ('member', coalesce(c.created_by_id::text, '')),
             ('agent', coalesce(c.agent_id::text, '')), ('model', c.provider || '/' || c.model),
             ('key', coalesce(c.key_id::text, '')), ('session', coalesce(c.session_id::text, ''))
    ) k (dimension, key)
   WHERE c.folded AND c.cached_tokens > 0 GROUP BY 1, 2, 3, 4) s
 WHERE (r.workspace_id, r.dimension, r.day, r.key) = (s.workspace_id, s.dimension, s.day, s.key)
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_storage")]

    operations = [
        migrations.RunSQL(DROP, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="usagerollup",
            name="cached_tokens",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.RunSQL(SUM_UP, migrations.RunSQL.noop),
    ]
