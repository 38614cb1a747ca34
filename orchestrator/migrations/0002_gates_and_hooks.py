"""Questions end with the steps that asked them, and webhooks hear how workflows fare."""

from django.db import migrations

FOLLOWS_ITS_STEP = """
-- Whatever ends the wait of a step, its time among them, ends the question in the same commit.
CREATE FUNCTION close_approval_of_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approvals a SET resolved_at = clock_timestamp(), status = CASE
      WHEN tg_op = 'UPDATE' AND new.error ->> 'code' = 'timeout' THEN 'expired' ELSE 'cancelled' END
   WHERE a.subject = 'workflow' AND a.subject_id = old.id AND a.status = 'pending';
  RETURN NULL;
END $$;
CREATE TRIGGER approval_follows_its_step AFTER UPDATE OF status ON workflow_steps FOR EACH ROW
  WHEN (old.kind = 'wait_for_approval' AND old.status = 'waiting' AND new.status <> 'waiting')
  EXECUTE FUNCTION close_approval_of_step();
CREATE TRIGGER approval_goes_with_its_step AFTER DELETE ON workflow_steps FOR EACH ROW
  WHEN (old.kind = 'wait_for_approval' AND old.status = 'waiting')
  EXECUTE FUNCTION close_approval_of_step();
"""
ANNOUNCED = """
CREATE FUNCTION announce_workflow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM webhooks w WHERE w.workspace_id = new.workspace_id AND w.active) THEN
    PERFORM webhook_announce(new.workspace_id, jsonb_build_array(jsonb_build_object(
      'type', 'workflow.' || new.status, 'timestamp', webhook_moment(clock_timestamp()),
      'data', jsonb_build_object('id', new.id, 'key', new.key, 'name', new.name,
        'status', new.status, 'from', old.status, 'error', new.error,
        'created_at', webhook_moment(new.created_at),
        'finished_at', webhook_moment(new.finished_at)))));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER workflow_is_announced AFTER UPDATE OF status ON workflows FOR EACH ROW
  WHEN (old.status IS DISTINCT FROM new.status) EXECUTE FUNCTION announce_workflow();
"""
BACKWARD = "DROP FUNCTION close_approval_of_step() CASCADE; DROP FUNCTION announce_workflow() CASCADE"


class Migration(migrations.Migration):
    dependencies = [("orchestrator", "0001_workflows"), ("sessions_app", "0015_snapshots")]
    operations = [migrations.RunSQL(FOLLOWS_ITS_STEP + ANNOUNCED, BACKWARD)]
