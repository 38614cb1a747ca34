"""One run at a time per session, held by the database again.

Dropping the index of the column `session` in 0005 took this one along, as it is on the same column.
"""

from django.db import migrations

CREATE = """
CREATE UNIQUE INDEX IF NOT EXISTS run_is_alone_in_its_lane ON agent_run_queue (session_id)
 WHERE status = 'running'
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0024_calls_of_workflows")]

    operations = [migrations.RunSQL(CREATE, migrations.RunSQL.noop)]
