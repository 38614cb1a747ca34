"""An agent's version is refused every change but the loss of its author."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION refuse_version_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  new.created_by_id := old.created_by_id;
  IF new IS DISTINCT FROM old THEN RAISE EXCEPTION 'agent versions are immutable'; END IF;
  RETURN new;
END $$;
CREATE TRIGGER version_is_immutable BEFORE UPDATE ON agents_agentversion
  FOR EACH ROW EXECUTE FUNCTION refuse_version_change();
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0002_initial")]
    operations = [migrations.RunSQL(FORWARD)]
