"""Outcomes of sessions, and the verdicts on them."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0017_about_an_agent'),
        ('tenants', '0006_webhooks_inbox'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='session',
            name='outcome',
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='sessionevent',
            name='type',
            field=models.CharField(choices=[('user.message', 'User Message'), ('user.message_edited', 'User Message Edited'), ('user.message_withdrawn', 'User Message Withdrawn'), ('user.interrupt', 'User Interrupt'), ('user.tool_confirmation', 'User Tool Confirmation'), ('user.custom_tool_result', 'User Custom Tool Result'), ('agent.message', 'Agent Message'), ('agent.tool_use', 'Agent Tool Use'), ('agent.custom_tool_use', 'Agent Custom Tool Use'), ('agent.tool_result', 'Agent Tool Result'), ('session.status_changed', 'Status Changed'), ('session.status_idle', 'Status Idle'), ('session.context_compacted', 'Context Compacted'), ('session.child_created', 'Child Created'), ('session.child_idle', 'Child Idle'), ('session.error', 'Error'), ('session.resource_attached', 'Resource Attached'), ('session.outcome_judged', 'Outcome Judged')], max_length=32),
        ),
        migrations.AddIndex(
            model_name='sessionevent',
            index=models.Index(condition=models.Q(('type', 'session.outcome_judged')), fields=['session', 'seq'], name='event_by_verdict'),
        ),
    ]
