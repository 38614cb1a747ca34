import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("agents", "0002_initial"),
        ("agents", "0003_versions_never_change"),
        ("agents", "0004_loose_ends"),
        ("agents", "0005_fewer_indexes"),
        ("agents", "0006_canvas"),
        ("agents", "0007_builder_drafts"),
        ("agents", "0008_default_limits_of_today"),
    ]

    initial = True

    dependencies = [
        ('agents', '0001_schema'),
        ('tenants', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='agent',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='agentversion',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='agentversion',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='agentversion',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='agent',
            name='current',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agentversion'),
        ),
        migrations.AddField(
            model_name='canvasrevision',
            name='agent',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='canvas_revisions', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='canvasrevision',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='canvasrevision',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='draftchange',
            name='agent',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='draft_changes', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='draftchange',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='draftchange',
            name='undoes',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='undone_by', to='agents.draftchange'),
        ),
        migrations.AddField(
            model_name='draftchange',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='environment',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='environment',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='agentversion',
            name='environment',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='agents.environment'),
        ),
        migrations.AddField(
            model_name='providerkey',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='providerkey',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='agentdraft',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='agentdraft',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='canvas',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='canvas',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(condition=models.Q(('role', 'builder')), fields=('workspace',), name='agent_that_builds_is_one_per_workspace'),
        ),
        migrations.AddConstraint(
            model_name='canvasrevision',
            constraint=models.UniqueConstraint(fields=('agent', 'number'), name='canvas_revision_is_unique_in_its_agent'),
        ),
        migrations.AddConstraint(
            model_name='canvasrevision',
            constraint=models.UniqueConstraint(condition=models.Q(('call_id', ''), _negated=True), fields=('agent', 'session_id', 'call_id'), name='canvas_call_writes_once'),
        ),
        migrations.AddConstraint(
            model_name='canvasrevision',
            constraint=models.CheckConstraint(condition=models.Q(('number__gte', 1)), name='canvas_revisions_start_at_one'),
        ),
        migrations.AddConstraint(
            model_name='draftchange',
            constraint=models.UniqueConstraint(fields=('agent', 'revision', 'part'), name='draft_change_is_one_per_revision'),
        ),
        migrations.AddConstraint(
            model_name='draftchange',
            constraint=models.UniqueConstraint(condition=models.Q(('call_id', ''), _negated=True), fields=('agent', 'session_id', 'call_id', 'part'), name='draft_call_changes_once'),
        ),
        migrations.AddConstraint(
            model_name='environment',
            constraint=models.UniqueConstraint(fields=('workspace', 'name'), name='environment_name_is_unique_in_its_workspace'),
        ),
        migrations.AddConstraint(
            model_name='agentversion',
            constraint=models.UniqueConstraint(condition=models.Q(('preview', None)), fields=('agent', 'number'), name='version_number_is_unique_among_its_agents_versions'),
        ),
        migrations.AddConstraint(
            model_name='agentversion',
            constraint=models.UniqueConstraint(condition=models.Q(('number', 0)), fields=('agent', 'preview'), name='version_previews_a_revision_once'),
        ),
        migrations.AddConstraint(
            model_name='agentversion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('number__gte', 1), ('preview', None)), models.Q(('number', 0), ('preview__isnull', False)), _connector='OR'), name='version_has_a_number_or_is_a_preview'),
        ),
        migrations.AddConstraint(
            model_name='providerkey',
            constraint=models.UniqueConstraint(fields=('workspace', 'provider'), name='provider_key_is_one_per_workspace'),
        ),
        migrations.AddConstraint(
            model_name='canvas',
            constraint=models.CheckConstraint(condition=models.Q(('published', None), models.Q(('published__gte', 1), ('published__lte', models.F('revision'))), _connector='OR'), name='canvas_publishes_a_revision_it_has'),
        ),
    ]
