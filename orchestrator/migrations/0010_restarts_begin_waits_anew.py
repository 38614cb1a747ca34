"""What ended with a workflow is no outcome for its restart: waits of other branches begin anew."""

from django.db import migrations

from orchestrator.migrations._engine import replaced

CHANGED = ["workflow_settle_held", "workflow_restart"]


class Migration(migrations.Migration):
    dependencies = [("orchestrator", "0009_living_workflows")]
    operations = [migrations.RunSQL(replaced(*CHANGED), migrations.RunSQL.noop)]
