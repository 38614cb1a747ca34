from django.db import migrations, models

#: Memory that exists keeps the model that it was stored with; `manage.py reembed` moves it.
KEEP_MODEL = """
INSERT INTO memory_embeddingchoice (id, workspace_id, model, coming)
SELECT gen_random_uuid(), stored.workspace_id, 'wordllama', ''
FROM (SELECT DISTINCT workspace_id FROM memory_memorychunk) stored
ON CONFLICT DO NOTHING
"""
INDEX = """
CREATE INDEX memory_vector_minilm ON memory_memoryvector
USING hnsw ((vector::vector(384)) vector_cosine_ops) WHERE model = 'minilm'
"""


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0004_consolidation'),
    ]

    operations = [
        migrations.AddField(
            model_name='memoryentry',
            name='awaits_vectors',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddIndex(
            model_name='memoryentry',
            index=models.Index(condition=models.Q(('awaits_vectors', True)), fields=['id'], name='memory_entry_awaits_vectors'),
        ),
        migrations.RunSQL([KEEP_MODEL, INDEX], migrations.RunSQL.noop),
    ]
