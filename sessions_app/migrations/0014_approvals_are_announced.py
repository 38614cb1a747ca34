"""Webhooks hear of every question to people and of every answer, in the commit that writes it."""

from django.db import migrations

ANNOUNCE = """
CREATE FUNCTION announce_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM webhooks w WHERE w.workspace_id = new.workspace_id AND w.active) THEN
    PERFORM webhook_announce(new.workspace_id, jsonb_build_array(jsonb_build_object(
      'type', CASE WHEN new.status = 'pending' THEN 'approval.created' ELSE 'approval.resolved' END,
      'timestamp', webhook_moment(clock_timestamp()),
      'data', jsonb_build_object('id', new.id, 'subject', new.subject, 'subject_id', new.subject_id,
        'session_id', new.session_id, 'agent_id', new.agent_id, 'title', new.title,
        'reason', new.reason, 'status', new.status, 'scope', new.scope, 'note', new.note,
        'resolved_by', nullif(new.resolved_name, ''), 'expires_at', webhook_moment(new.expires_at),
        'created_at', webhook_moment(new.created_at),
        'resolved_at', webhook_moment(new.resolved_at)))));
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER approval_is_announced AFTER INSERT ON approvals FOR EACH ROW
  EXECUTE FUNCTION announce_approval();
CREATE TRIGGER answer_is_announced AFTER UPDATE OF status ON approvals FOR EACH ROW
  WHEN (old.status = 'pending' AND new.status <> 'pending') EXECUTE FUNCTION announce_approval();
"""
QUIET = "DROP FUNCTION announce_approval() CASCADE"


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0013_approvals")]
    operations = [migrations.RunSQL(ANNOUNCE, QUIET)]
