"""The time of questions stands still with their workflow, which is the one to keep it."""

from django.db import migrations

from orchestrator.migrations._engine import replaced

CHANGED = [
    "workflow_claim", "workflow_advance", "workflow_timeout_fault", "workflow_signal",
    "workflow_resume", "ring_step_of_run",
]

#: Steps that wait for a person without a time of their own have the one that was told to people.
TIMED = """
UPDATE workflow_steps s SET wake_at = a.expires_at FROM approvals a
 WHERE s.kind = 'wait_for_approval' AND s.status = 'waiting' AND s.wake_at IS NULL
   AND a.subject = 'workflow' AND a.subject_id = s.id AND a.status = 'pending';
UPDATE workflows w SET wake_at = least(w.wake_at, (
    SELECT min(s.wake_at) FROM workflow_steps s WHERE s.workflow_id = w.id AND s.status = 'waiting'))
 WHERE w.status IN ('waiting', 'waiting_approval');
"""


class Migration(migrations.Migration):
    dependencies = [
        ("orchestrator", "0006_branches"),
        ("sessions_app", "0013_approvals"),
    ]
    operations = [
        migrations.RunSQL(replaced(*CHANGED), migrations.RunSQL.noop),
        migrations.RunSQL(TIMED, migrations.RunSQL.noop),
    ]
