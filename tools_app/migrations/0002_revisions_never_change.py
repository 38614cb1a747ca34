"""A policy's revision is refused every change but the loss of its author."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION refuse_policy_revision_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  authored agent_tool_policy_revisions := new;
BEGIN
  IF new.created_by_id IS NULL THEN authored.created_by_id := old.created_by_id; END IF;
  IF authored IS DISTINCT FROM old THEN RAISE EXCEPTION 'policy revisions are immutable'; END IF;
  RETURN new;
END $$;
CREATE TRIGGER policy_revision_is_immutable BEFORE UPDATE ON agent_tool_policy_revisions
  FOR EACH ROW EXECUTE FUNCTION refuse_policy_revision_change();
"""
BACKWARD = "DROP FUNCTION refuse_policy_revision_change() CASCADE"


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0001_policies")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
