"""Adds the daily sums of tool calls, and marks the calls that they contain."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0006_compaction_undone'),
        ('tenants', '0003_usage_rollups'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ToolUseRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('name', models.CharField(max_length=160)),
                ('state', models.CharField(choices=[('requested', 'Requested'), ('awaiting_approval', 'Awaiting Approval'), ('running', 'Running'), ('completed', 'Completed'), ('error', 'Error'), ('denied', 'Denied'), ('cancelled', 'Cancelled'), ('unknown', 'Unknown')], max_length=17)),
                ('decision', models.CharField(max_length=5)),
                ('bucket', models.SmallIntegerField()),
                ('calls', models.BigIntegerField()),
                ('ms', models.DecimalField(decimal_places=3, max_digits=20)),
            ],
            options={
                'db_table': 'tool_use_rollups',
                'ordering': ['-day', '-id'],
            },
        ),
        migrations.AddField(
            model_name='toolexecution',
            name='folded',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AlterField(
            model_name='toolexecution',
            name='workspace',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddIndex(
            model_name='toolexecution',
            index=models.Index(condition=models.Q(('folded', False)), fields=['workspace'], name='execution_unfolded'),
        ),
        migrations.AddField(
            model_name='tooluserollup',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddConstraint(
            model_name='tooluserollup',
            constraint=models.UniqueConstraint(fields=('workspace', 'day', 'name', 'state', 'decision', 'bucket'), name='tool_use_is_one_per_day_and_bucket'),
        ),
    ]
