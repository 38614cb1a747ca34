"""Counts the bytes of the documents that exist already."""

from django.db import migrations

COUNT = """
INSERT INTO storage_growth (workspace_id, bytes)
SELECT workspace_id, sum(300 + CASE WHEN redacted_at IS NULL THEN bytes ELSE 0 END)
  FROM memory_memoryversion GROUP BY 1
"""


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_references"), ("tenants", "0004_storage")]

    operations = [migrations.RunSQL(COUNT, migrations.RunSQL.noop)]
