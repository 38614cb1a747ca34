"""Adds what lists of sessions, runs and tool calls need so that no page grows with the data."""

import datetime

import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models

# An index depends on it, so it is part of this migration and must not change without a new index.
TITLE_GRAMS = """
CREATE FUNCTION title_grams(title text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT array_agg(DISTINCT substr(lower(title), start, size))
    FROM generate_series(1, length(lower(title))) start, generate_series(1, 2) size
$$
"""
PERIOD = models.Func(
    models.Value(datetime.timedelta(minutes=10)),
    models.F("active_at"),
    models.Value(datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)),
    function="date_bin",
)


def workspace() -> models.Field:
    """Return the reference to the workspace without an index of its own."""
    return models.ForeignKey(
        db_index=False,
        on_delete=django.db.models.deletion.CASCADE,
        related_name="+",
        to="tenants.workspace",
    )


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0003_session_ancestors"), ("tenants", "0001_schema")]

    operations = [
        migrations.RunSQL(TITLE_GRAMS, "DROP FUNCTION title_grams(text)"),
        migrations.AddField(
            model_name="session",
            name="active_period",
            field=models.GeneratedField(
                db_persist=True, expression=PERIOD, output_field=models.DateTimeField()
            ),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["workspace", "-active_period"], name="session_by_activity"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(fields=["workspace", "-created_at", "-id"], name="session_by_age"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=django.contrib.postgres.indexes.GinIndex(
                models.Func(models.F("title"), function="title_grams"), name="session_by_title"
            ),
        ),
        migrations.AlterField(model_name="session", name="workspace", field=workspace()),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(fields=["workspace", "-created_at", "-id"], name="run_by_age"),
        ),
        migrations.AlterField(model_name="run", name="workspace", field=workspace()),
        migrations.AddIndex(
            model_name="toolexecution",
            index=models.Index(fields=["session", "-created_at"], name="execution_by_session"),
        ),
        migrations.AlterField(
            model_name="toolexecution",
            name="session",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="executions",
                to="sessions_app.session",
            ),
        ),
    ]
