"""The log refuses changes, and the steps of a lane are functions of the database."""

from pathlib import Path

from django.db import migrations

FORWARD = (Path(__file__).parent.parent / "sql" / "lanes.sql").read_text()
STORAGE = """
ALTER TABLE session_drafts SET UNLOGGED;
ALTER TABLE agent_sessions SET (fillfactor = 50);
ALTER TABLE agent_run_queue SET (fillfactor = 70);
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0002_initial")]
    operations = [migrations.RunSQL(FORWARD), migrations.RunSQL(STORAGE)]
