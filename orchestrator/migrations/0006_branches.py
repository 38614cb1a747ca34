"""Branches of a workflow wait at the same time; questions end with the workflow that asked them."""

from django.db import migrations, models

from orchestrator.migrations._engine import replaced

CHANGED = [
    "workflow_begin_wait", "workflow_begin_attempt", "workflow_advance", "workflow_hold",
    "workflow_settle_held", "workflow_signal", "workflow_fire_step", "workflow_fire_due",
    "workflow_resume",
]


QUESTIONS = """
CREATE FUNCTION close_approvals_of_workflow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approvals a SET resolved_at = clock_timestamp(), status = 'cancelled'
    FROM workflow_steps s
   WHERE s.workflow_id = new.id AND s.kind = 'wait_for_approval' AND s.status = 'waiting'
     AND a.subject = 'workflow' AND a.subject_id = s.id AND a.status = 'pending';
  RETURN NULL;
END $$;
CREATE TRIGGER approvals_follow_their_workflow AFTER UPDATE OF status ON workflows FOR EACH ROW
  WHEN (old.status <> new.status AND new.status IN ('errored', 'terminated'))
  EXECUTE FUNCTION close_approvals_of_workflow();
"""


class Migration(migrations.Migration):
    dependencies = [("orchestrator", "0005_key_of_workflow")]
    operations = [
        migrations.AddField(
            "step",
            "branch",
            models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.RunSQL(replaced(*CHANGED) + QUESTIONS),
    ]
