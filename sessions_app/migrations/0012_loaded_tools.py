"""Adds the tools that stay loaded to the snapshots of a context."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0011_context_noted")]

    operations = [
        migrations.AddField(
            model_name="contextsnapshot",
            name="loaded_tools",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=160), db_default=[], default=list, size=None
            ),
        ),
    ]
