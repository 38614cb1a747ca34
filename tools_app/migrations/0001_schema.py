import core.ids
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("tools_app", "0001_policies"),
        ("tools_app", "0002_revisions_never_change"),
        ("tools_app", "0003_custom_tools"),
        ("tools_app", "0004_mcp_skills"),
        ("tools_app", "0005_custom_tools_go_out_by_themselves"),
    ]

    initial = True

    dependencies = [
        ('tenants', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ToolPolicy',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('profile', models.CharField(blank=True, max_length=20, null=True)),
                ('allowed_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), blank=True, default=list, size=None)),
                ('denied_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), blank=True, default=list, size=None)),
                ('ask_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), blank=True, default=list, size=None)),
                ('max_tool_calls_per_turn', models.PositiveIntegerField(blank=True, null=True)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('layer', models.CharField(choices=[('workspace', 'Workspace'), ('agent', 'Agent'), ('environment', 'Environment'), ('session', 'Session'), ('subagent', 'Subagent')], max_length=11)),
                ('subject_id', models.UUIDField()),
                ('revision', models.PositiveIntegerField(default=0)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'verbose_name_plural': 'tool policies',
                'db_table': 'agent_tool_policies',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='PolicyRevision',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('profile', models.CharField(blank=True, max_length=20, null=True)),
                ('allowed_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), blank=True, default=list, size=None)),
                ('denied_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), blank=True, default=list, size=None)),
                ('ask_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=150), blank=True, default=list, size=None)),
                ('max_tool_calls_per_turn', models.PositiveIntegerField(blank=True, null=True)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('revision', models.PositiveIntegerField()),
                ('author', models.CharField(blank=True, max_length=254)),
                ('reverts_to', models.PositiveIntegerField(blank=True, null=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
                ('policy', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='tools_app.toolpolicy')),
            ],
            options={
                'db_table': 'agent_tool_policy_revisions',
                'ordering': ['-revision'],
            },
        ),
        migrations.CreateModel(
            name='CustomTool',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=60)),
                ('description', models.TextField()),
                ('input_schema', models.JSONField(default=dict)),
                ('permission', models.CharField(choices=[('always_allow', 'Always Allow'), ('always_ask', 'Always Ask')], default='always_allow', max_length=12)),
                ('timeout_seconds', models.PositiveIntegerField(default=300)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'agent_custom_tools',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='custom_tool_name_is_unique_in_its_workspace')],
            },
        ),
        migrations.CreateModel(
            name='McpServer',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40)),
                ('transport', models.CharField(choices=[('http', 'HTTP'), ('stdio', 'A command in the sandbox')], default='http', max_length=5)),
                ('url', models.CharField(blank=True, max_length=500)),
                ('headers', models.JSONField(blank=True, default=dict)),
                ('command', models.CharField(blank=True, max_length=2000)),
                ('enabled', models.BooleanField(default=True)),
                ('permission', models.CharField(choices=[('always_allow', 'Always Allow'), ('always_ask', 'Always Ask')], default='always_ask', max_length=12)),
                ('timeout_seconds', models.PositiveIntegerField(default=60)),
                ('repeatable_tools', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, size=None)),
                ('status', models.CharField(choices=[('new', 'Not asked yet'), ('ok', 'Works'), ('down', 'Cannot be reached'), ('refused', 'Refuses'), ('failed', 'Does not work')], default='new', editable=False, max_length=7)),
                ('error', models.TextField(blank=True, editable=False)),
                ('tools', models.JSONField(default=list, editable=False)),
                ('left_out', models.JSONField(default=list, editable=False)),
                ('protocol', models.CharField(blank=True, editable=False, max_length=20)),
                ('server_info', models.CharField(blank=True, editable=False, max_length=200)),
                ('refreshed_at', models.DateTimeField(editable=False, null=True)),
                ('tried_at', models.DateTimeField(editable=False, null=True)),
                ('failures', models.PositiveIntegerField(default=0, editable=False)),
                ('due_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('revision', models.PositiveIntegerField(default=1, editable=False)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'mcp_servers',
                'ordering': ['name'],
                'indexes': [models.Index(condition=models.Q(('enabled', True)), fields=['due_at'], name='mcp_due')],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='mcp_server_name_is_unique_in_its_workspace')],
            },
        ),
        migrations.CreateModel(
            name='Skill',
            fields=[
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=60)),
                ('description', models.CharField(max_length=300)),
                ('body', models.TextField()),
                ('agents', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), blank=True, default=list, size=None)),
                ('enabled', models.BooleanField(default=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'agent_skills',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='skill_name_is_unique_in_its_workspace')],
            },
        ),
        migrations.AddConstraint(
            model_name='toolpolicy',
            constraint=models.UniqueConstraint(fields=('subject_id', 'layer'), name='policy_is_one_per_layer_and_subject'),
        ),
        migrations.AddConstraint(
            model_name='policyrevision',
            constraint=models.UniqueConstraint(fields=('policy', 'revision'), name='revision_is_unique_in_its_policy'),
        ),
    ]
