"""Adds the event type of thinking, and the kind of a draft."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sessions_app', '0015_chats'),
    ]

    operations = [
        migrations.AddField(
            model_name='draft',
            name='kind',
            field=models.CharField(choices=[('text', 'Text'), ('thinking', 'Thinking')], db_default='text', default='text', max_length=8),
        ),
        migrations.AlterField(
            model_name='sessionevent',
            name='type',
            field=models.CharField(choices=[('user.message', 'User Message'), ('user.message_edited', 'User Message Edited'), ('user.message_withdrawn', 'User Message Withdrawn'), ('user.interrupt', 'User Interrupt'), ('user.tool_confirmation', 'User Tool Confirmation'), ('user.custom_tool_result', 'User Custom Tool Result'), ('agent.message', 'Agent Message'), ('agent.thinking', 'Agent Thinking'), ('agent.tool_use', 'Agent Tool Use'), ('agent.custom_tool_use', 'Agent Custom Tool Use'), ('agent.tool_result', 'Agent Tool Result'), ('session.status_changed', 'Status Changed'), ('session.status_idle', 'Status Idle'), ('session.context_compacted', 'Context Compacted'), ('session.compaction_undone', 'Compaction Undone'), ('session.child_created', 'Child Created'), ('session.child_idle', 'Child Idle'), ('session.error', 'Error'), ('session.resource_attached', 'Resource Attached'), ('session.outcome_judged', 'Outcome Judged'), ('session.terminal_opened', 'Terminal Opened'), ('session.context_noted', 'Context Noted')], max_length=32),
        ),
    ]
