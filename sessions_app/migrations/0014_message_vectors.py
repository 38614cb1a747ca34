"""Adds the vectors of messages."""

import core.ids
import django.db.models.deletion
import django.db.models.functions.datetime
import pgvector.django.vector
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0004_consolidation'),
        ('sessions_app', '0013_consolidation_runs'),
        ('tenants', '0006_memory_calls'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='MessageVector',
            fields=[
                ('id', models.UUIDField(default=core.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('seq', models.BigIntegerField()),
                ('position', models.PositiveSmallIntegerField()),
                ('model', models.CharField(max_length=120)),
                ('vector', pgvector.django.vector.VectorField()),
                ('created_by', models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('session', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='message_vectors', to='sessions_app.session')),
                ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.workspace')),
            ],
            options={
                'db_table': 'message_vectors',
                'ordering': ['session', 'seq', 'position'],
                'constraints': [models.UniqueConstraint(fields=('session', 'model', 'seq', 'position'), name='message_vector_is_one_per_piece')],
            },
        ),
    ]
