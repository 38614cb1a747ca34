"""Lets an environment name a kind of sandbox that a plugin brings."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0003_provider_settings")]

    operations = [
        migrations.AlterField(
            model_name="environment",
            name="kind",
            field=models.CharField(default="local", max_length=40),
        ),
    ]
