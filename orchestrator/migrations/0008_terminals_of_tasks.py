"""Terminals can be opened in the sandbox of a task, which has no session."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orchestrator", "0007_time_of_questions")]

    operations = [
        migrations.AlterField(
            "terminal",
            "session",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="terminals",
                to="sessions_app.session",
            ),
        ),
    ]
