from django.db import migrations

# Finds the few messages with files without reading the other messages of a long session.
MESSAGES_WITH_FILES = """
CREATE INDEX message_with_files ON session_messages (session_id, seq)
 WHERE type = 'user.message' AND (payload #> '{attachments,0}') IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0007_tool_use_rollups")]

    operations = [migrations.RunSQL(MESSAGES_WITH_FILES, "DROP INDEX message_with_files")]
