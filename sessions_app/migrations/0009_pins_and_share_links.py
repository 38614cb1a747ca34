"""Adds pins and share links to sessions."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0008_messages_with_files")]

    operations = [
        migrations.AddField(
            model_name='session',
            name='pinned_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='session',
            name='share_token',
            field=models.CharField(blank=True, db_default='', default='', editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name='session',
            name='shared_seq',
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('pinned_at__isnull', False)), fields=['workspace'], name='session_by_pin'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(condition=models.Q(('share_token', ''), _negated=True), fields=('share_token',), name='session_share_token_is_unique'),
        ),
    ]
