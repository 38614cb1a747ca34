"""A default environment that nobody touched has the limits that a new one has.

Its limits were written down before they bound anything; now that they do, commands that ran for
minutes would be ended after two.
"""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

WRITTEN = {"cpu_seconds": 60, "memory_mb": 512, "pids": 128, "wall_seconds": 120}
MEANT = {"cpu_seconds": 300, "memory_mb": 1024, "pids": 128, "wall_seconds": 600}


def widen(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    environments = apps.get_model("agents", "Environment").objects
    environments.filter(name="local-default", limits=WRITTEN).update(limits=MEANT)


class Migration(migrations.Migration):
    dependencies = [("agents", "0007_builder_drafts")]
    operations = [migrations.RunPython(widen, migrations.RunPython.noop)]
