"""Adds the sessions above a session, from the root down, so that no query walks the tree."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models
from django.db import migrations, models

BACKFILL = """
WITH RECURSIVE tree (id, ancestors) AS (
  SELECT s.id, '{}'::uuid[] FROM agent_sessions s WHERE s.parent_id IS NULL
  UNION ALL SELECT s.id, t.ancestors || s.parent_id FROM agent_sessions s JOIN tree t ON s.parent_id = t.id)
UPDATE agent_sessions s SET ancestors = t.ancestors FROM tree t
 WHERE t.id = s.id AND s.parent_id IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0002_references")]

    operations = [
        migrations.AddField(
            model_name="session",
            name="ancestors",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(), default=list, db_default=[], editable=False, size=None
            ),
        ),
        migrations.RunSQL(BACKFILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="session",
            index=django.contrib.postgres.indexes.GinIndex(
                condition=models.Q(("parent__isnull", False)),
                fields=["ancestors"],
                name="session_by_ancestor",
            ),
        ),
    ]
