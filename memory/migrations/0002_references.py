import django.contrib.postgres.indexes
import django.db.models.constraints
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    # Installations made before the migrations were squashed have these applied.
    replaces = [
        ("memory", "0002_versions_never_change"),
        ("memory", "0003_fewer_indexes"),
        ("memory", "0004_chunks_change_places"),
    ]

    initial = True

    dependencies = [
        ('agents', '0002_references'),
        ('memory', '0001_schema'),
        ('sessions_app', '0001_schema'),
        ('tenants', '0001_schema'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='embeddingchoice',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='embeddingchoice',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='memorychunk',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='memorychunk',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='memoryentry',
            name='agent',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='memoryentry',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='memoryentry',
            name='session',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='sessions_app.session'),
        ),
        migrations.AddField(
            model_name='memoryentry',
            name='user',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='memoryentry',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='memorychunk',
            name='entry',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='memory.memoryentry'),
        ),
        migrations.AddField(
            model_name='memoryvector',
            name='chunk',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='vectors', to='memory.memorychunk'),
        ),
        migrations.AddField(
            model_name='memoryvector',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='memoryvector',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='memoryversion',
            name='created_by',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='memoryversion',
            name='entry',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='memory.memoryentry'),
        ),
        migrations.AddField(
            model_name='memoryversion',
            name='redacted_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='memoryversion',
            name='workspace',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace'),
        ),
        migrations.AddField(
            model_name='memoryentry',
            name='current',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memory.memoryversion'),
        ),
        migrations.AddConstraint(
            model_name='embeddingchoice',
            constraint=models.UniqueConstraint(fields=('workspace',), name='embedding_choice_is_one_per_workspace'),
        ),
        migrations.AddConstraint(
            model_name='embeddingchoice',
            constraint=models.CheckConstraint(condition=models.Q(('coming', models.F('model')), _negated=True), name='embedding_moves_to_another_model'),
        ),
        migrations.AddIndex(
            model_name='memorychunk',
            index=models.Index(fields=['workspace', 'owner_id'], name='memory_chunk_by_owner'),
        ),
        migrations.AddIndex(
            model_name='memorychunk',
            index=django.contrib.postgres.indexes.GinIndex(fields=['tsv'], name='memory_chunk_by_word'),
        ),
        migrations.AddConstraint(
            model_name='memorychunk',
            constraint=models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('entry', 'position'), name='memory_chunk_has_a_place_in_its_entry'),
        ),
        migrations.AddConstraint(
            model_name='memoryvector',
            constraint=models.UniqueConstraint(fields=('chunk', 'model'), name='memory_vector_is_one_per_model'),
        ),
        migrations.AddConstraint(
            model_name='memoryversion',
            constraint=models.UniqueConstraint(fields=('entry', 'number'), name='memory_version_number_is_unique_in_its_entry'),
        ),
        migrations.AddIndex(
            model_name='memoryentry',
            index=models.Index(fields=['workspace', 'owner_id'], name='memory_entry_by_owner'),
        ),
        migrations.AddIndex(
            model_name='memoryentry',
            index=models.Index(condition=models.Q(('pinned', True)), fields=['owner_id'], name='memory_entry_pinned'),
        ),
        migrations.AddConstraint(
            model_name='memoryentry',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('workspace', 'owner_id', 'path'), name='memory_path_is_unique_for_its_owner'),
        ),
        migrations.AddConstraint(
            model_name='memoryentry',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('owner_id', models.F('workspace_id')), ('scope', 'workspace'), ('agent__isnull', True), ('session__isnull', True), ('user__isnull', True)), models.Q(('owner_id', models.F('agent_id')), ('scope', 'agent'), ('agent__isnull', False), ('session__isnull', True), ('user__isnull', True)), models.Q(('owner_id', models.F('user_id')), ('scope', 'user'), ('agent__isnull', True), ('session__isnull', True), ('user__isnull', False)), models.Q(('owner_id', models.F('session_id')), ('scope', 'session'), ('agent__isnull', True), ('session__isnull', False), ('user__isnull', True)), _connector='OR'), name='memory_owner_is_of_its_scope'),
        ),
        migrations.RunSQL(
            [
                "CREATE INDEX memory_vector_wordllama ON memory_memoryvector USING hnsw ((vector::vector(256)) vector_cosine_ops) WHERE model = 'wordllama'",
            ],
            migrations.RunSQL.noop,
        ),
    ]
