"""Adds runs and schedules that consolidate memory."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0004_plugin_sandboxes'),
        ('sessions_app', '0012_loaded_tools'),
        ('tenants', '0006_memory_calls'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='schedule',
            name='task',
            field=models.CharField(choices=[('message', 'Message'), ('consolidation', 'Consolidation')], db_default='message', default='message', max_length=13),
        ),
        migrations.AlterField(
            model_name='run',
            name='purpose',
            field=models.CharField(choices=[('turn', 'Turn'), ('compact', 'Compact'), ('consolidate', 'Consolidate')], db_default='turn', default='turn', max_length=11),
        ),
        migrations.AlterField(
            model_name='schedule',
            name='message',
            field=models.TextField(blank=True),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.UniqueConstraint(condition=models.Q(('task', 'consolidation')), fields=('agent',), name='consolidation_has_one_schedule_per_agent'),
        ),
    ]
