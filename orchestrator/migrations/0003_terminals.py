"""Terminals: shells of people in sandboxes."""

import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.ids
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('orchestrator', '0002_gates_and_hooks'),
        ('sessions_app', '0015_snapshots'),
        ('tenants', '0006_webhooks_inbox'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Terminal',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=tenants.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('opening', 'Opening'), ('open', 'Open'), ('closing', 'Closing'), ('closed', 'Closed')], db_default='opening', default='opening', max_length=8)),
                ('host', models.CharField(blank=True, default='', max_length=80)),
                ('host_pid', models.PositiveIntegerField(editable=False, null=True)),
                ('columns', models.PositiveSmallIntegerField(default=80)),
                ('rows', models.PositiveSmallIntegerField(default=24)),
                ('opened_at', models.DateTimeField(editable=False, null=True)),
                ('closed_at', models.DateTimeField(editable=False, null=True)),
                ('reason', models.CharField(blank=True, default='', max_length=300)),
                ('share_hash', models.CharField(blank=True, default='', editable=False, max_length=64)),
                ('share_expires', models.DateTimeField(editable=False, null=True)),
                ('closed_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('session', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='terminals', to='sessions_app.session')),
                ('workflow', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='terminals', to='orchestrator.workflow')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'terminals',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['workspace', '-created_at'], name='terminal_by_age'), models.Index(condition=models.Q(('status', 'closed'), _negated=True), fields=['host'], name='terminal_living')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('status', 'closed'), _negated=True), ('closed_at__isnull', False), _connector='OR'), name='terminal_that_is_over_says_when'), models.CheckConstraint(condition=models.Q(models.Q(('status', 'open'), _negated=True), ('host_pid__isnull', False), _connector='OR'), name='terminal_that_is_open_has_a_host')],
            },
        ),
    ]
