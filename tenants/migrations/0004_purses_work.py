"""Money moves by functions of the database; every workspace that is there already starts with credits."""

from pathlib import Path

from django.conf import settings
from django.db import migrations

FORWARD = (Path(__file__).parent.parent / "sql" / "money.sql").read_text()
STORAGE = """
ALTER TABLE purses SET (fillfactor = 50);
ALTER TABLE model_calls SET (fillfactor = 80);
"""


def grant(apps, schema_editor):
    workspaces = apps.get_model("tenants", "Workspace").objects.values_list("pk", flat=True)
    with schema_editor.connection.cursor() as cursor:
        for pk in workspaces.iterator():
            cursor.execute(
                "SELECT credit_add(%s, 'grant', %s, 'To begin with', NULL, gen_random_uuid())",
                [pk, settings.STARTING_CREDITS],
            )


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_money")]
    operations = [
        migrations.RunSQL(FORWARD),
        migrations.RunSQL(STORAGE),
        migrations.RunPython(grant, migrations.RunPython.noop),
    ]
