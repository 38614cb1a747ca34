from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools_app", "0002_approved_tools")]

    operations = [
        migrations.AddField("policyrevision", "peers", models.JSONField(default=list, blank=True)),
        migrations.AddField("toolpolicy", "peers", models.JSONField(default=list, blank=True)),
    ]
