"""Sub-agents follow the runs of their sessions; a call that goes on elsewhere blocks its session."""

from pathlib import Path

from django.db import migrations

FOLLOW = (Path(__file__).parent.parent / "sql" / "spawns.sql").read_text()
BLOCKING = """
CREATE OR REPLACE FUNCTION lane_blocking(sid uuid) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT coalesce(jsonb_agg(t.tool_use_id ORDER BY t.id), '[]') FROM tool_executions t
           WHERE t.session_id = sid
             AND (t.state = 'awaiting_approval'
                  OR t.state = 'running' AND (t.ownership = 'custom' OR t.parked)));
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0007_subagents")]
    operations = [
        migrations.RunSQL(FOLLOW, migrations.RunSQL.noop),
        migrations.RunSQL(BLOCKING, migrations.RunSQL.noop),
    ]
