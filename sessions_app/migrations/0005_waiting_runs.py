from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0004_list_indexes"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("status", "queued")),
                fields=["workspace"],
                name="run_waiting_by_workspace",
            ),
        ),
    ]
