"""Whoever looks after all workflows that are not over does not read those that are."""

from django.db import migrations, models
from django.db.models import Q

ALIVE = ["queued", "running", "waiting", "waiting_approval", "paused"]


class Migration(migrations.Migration):
    dependencies = [("orchestrator", "0008_terminals_of_tasks")]

    operations = [
        migrations.AddIndex(
            "workflow",
            models.Index(
                fields=["status"], condition=Q(status__in=ALIVE), name="workflow_is_alive"
            ),
        ),
    ]
