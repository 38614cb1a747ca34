"""Adds the sums of usage, and marks the calls that they contain."""

import django.db.models.deletion
from django.db import migrations, models


# Calls are folded in the background. Sandboxes are summed up when they are charged, so charges that
# exist already are summed up here.
SUM_UP_SANDBOXES = """
INSERT INTO usage_rollups (workspace_id, dimension, day, key, calls, input_tokens, output_tokens, cost)
SELECT workspace_id, 'sandbox', (created_at AT TIME ZONE 'UTC')::date, '', count(*), 0, 0, -sum(amount)
  FROM credit_ledger WHERE kind = 'sandbox' GROUP BY 1, 3
"""


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0002_quotas'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageRollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('dimension', models.CharField(choices=[('total', 'Total'), ('member', 'Member'), ('agent', 'Agent'), ('model', 'Model'), ('key', 'Key'), ('session', 'Session'), ('sandbox', 'Sandbox')], max_length=7)),
                ('day', models.DateField()),
                ('key', models.CharField(max_length=241)),
                ('calls', models.BigIntegerField()),
                ('input_tokens', models.BigIntegerField()),
                ('output_tokens', models.BigIntegerField()),
                ('cost', models.DecimalField(decimal_places=8, max_digits=18)),
            ],
            options={
                'db_table': 'usage_rollups',
                'ordering': ['-day', '-id'],
            },
        ),
        migrations.AddField(
            model_name='modelcall',
            name='folded',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AlterField(
            model_name='modelcall',
            name='workspace',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddIndex(
            model_name='modelcall',
            index=models.Index(condition=models.Q(('folded', False)), fields=['workspace'], name='call_unfolded'),
        ),
        migrations.AddField(
            model_name='usagerollup',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddConstraint(
            model_name='usagerollup',
            constraint=models.UniqueConstraint(fields=('workspace', 'dimension', 'day', 'key'), name='usage_is_one_per_day_and_key'),
        ),
        migrations.CreateModel(
            name='SessionUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=36)),
                ('first_day', models.DateField()),
                ('last_day', models.DateField()),
                ('calls', models.BigIntegerField()),
                ('cost', models.DecimalField(decimal_places=8, max_digits=18)),
            ],
            options={
                'db_table': 'usage_sessions',
                'ordering': ['-last_day', '-id'],
            },
        ),
        migrations.AddIndex(
            model_name='usagerollup',
            index=models.Index(condition=models.Q(('dimension', 'session')), fields=['workspace', 'key', 'day'], name='usage_by_session'),
        ),
        migrations.AddField(
            model_name='sessionusage',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddIndex(
            model_name='sessionusage',
            index=models.Index(fields=['workspace', '-cost', '-calls', '-key'], include=('first_day', 'last_day'), name='usage_session_by_cost'),
        ),
        migrations.AddConstraint(
            model_name='sessionusage',
            constraint=models.UniqueConstraint(fields=('workspace', 'key'), name='usage_is_one_per_session'),
        ),
        migrations.RunSQL(SUM_UP_SANDBOXES, migrations.RunSQL.noop),
    ]
