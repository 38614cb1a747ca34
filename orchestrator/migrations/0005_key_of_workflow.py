"""Workflows remember the key that started them, so that its budget pays for their agents."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orchestrator", "0004_triggers")]
    operations = [
        migrations.AddField(
            model_name="workflow",
            name="key_id",
            field=models.UUIDField(editable=False, null=True),
        ),
    ]
