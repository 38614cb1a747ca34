"""Adds how much an agent's model thinks, and the schema that its answers must fit."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0004_plugin_sandboxes'),
    ]

    operations = [
        migrations.AddField(
            model_name='agentversion',
            name='effort',
            field=models.CharField(blank=True, choices=[('off', 'Off'), ('low', 'Low'), ('medium', 'Medium'), ('high', 'High')], db_default='', default='', max_length=6),
        ),
        migrations.AddField(
            model_name='agentversion',
            name='response_schema',
            field=models.JSONField(blank=True, null=True),
        ),
    ]
