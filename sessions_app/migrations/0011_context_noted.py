"""Adds the event type of what the model was told beside a message."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0010_count_storage")]

    operations = [
        migrations.AlterField(
            model_name="sessionevent",
            name="type",
            field=models.CharField(choices=[('user.message', 'User Message'), ('user.message_edited', 'User Message Edited'), ('user.message_withdrawn', 'User Message Withdrawn'), ('user.interrupt', 'User Interrupt'), ('user.tool_confirmation', 'User Tool Confirmation'), ('user.custom_tool_result', 'User Custom Tool Result'), ('agent.message', 'Agent Message'), ('agent.tool_use', 'Agent Tool Use'), ('agent.custom_tool_use', 'Agent Custom Tool Use'), ('agent.tool_result', 'Agent Tool Result'), ('session.status_changed', 'Status Changed'), ('session.status_idle', 'Status Idle'), ('session.context_compacted', 'Context Compacted'), ('session.compaction_undone', 'Compaction Undone'), ('session.child_created', 'Child Created'), ('session.child_idle', 'Child Idle'), ('session.error', 'Error'), ('session.resource_attached', 'Resource Attached'), ('session.outcome_judged', 'Outcome Judged'), ('session.terminal_opened', 'Terminal Opened'), ('session.context_noted', 'Context Noted')], max_length=32),
        ),
    ]
