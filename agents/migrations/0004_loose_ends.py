"""Authors can leave, workspaces can be erased, and a server may need no key."""

import django.db.models.deletion
import encrypted_fields.fields
from django.db import migrations, models

# The first form put the author back when one was deleted, so that nobody could be.
FORWARD = """
CREATE OR REPLACE FUNCTION refuse_version_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  authored agents_agentversion := new;
BEGIN
  IF new.created_by_id IS NULL THEN authored.created_by_id := old.created_by_id; END IF;
  IF authored IS DISTINCT FROM old THEN RAISE EXCEPTION 'agent versions are immutable'; END IF;
  RETURN new;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0003_versions_never_change")]
    operations = [
        migrations.RunSQL(FORWARD, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="agentversion",
            name="environment",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="+",
                to="agents.environment",
            ),
        ),
        migrations.AlterField(
            model_name="providerkey",
            name="secret",
            field=encrypted_fields.fields.EncryptedTextField(blank=True, null=True),
        ),
    ]
