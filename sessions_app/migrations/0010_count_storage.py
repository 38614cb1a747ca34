"""Counts the bytes of the events and tool calls that exist already."""

from django.db import migrations

COUNT = """
INSERT INTO storage_growth (workspace_id, bytes)
SELECT workspace_id, sum(pg_column_size(payload) + 300) FROM session_messages GROUP BY 1
UNION ALL
SELECT workspace_id, sum(500 + pg_column_size(input) + coalesce(pg_column_size(output), 0))
  FROM tool_executions GROUP BY 1
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0009_pins_and_share_links"), ("tenants", "0004_storage")]

    operations = [migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
