"""Adds the bytes that each workspace has in the database."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_usage_rollups")]

    operations = [
        migrations.CreateModel(
            name="StorageGrowth",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("bytes", models.BigIntegerField()),
                (
                    "workspace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="tenants.workspace",
                    ),
                ),
            ],
            options={"db_table": "storage_growth"},
        ),
        migrations.CreateModel(
            name="WorkspaceStorage",
            fields=[
                (
                    "workspace",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.workspace",
                    ),
                ),
                ("bytes", models.BigIntegerField()),
                ("is_full", models.BooleanField(db_default=False, default=False)),
            ],
            options={"db_table": "workspace_storage"},
        ),
    ]
