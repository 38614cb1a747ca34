"""Adds the calls with which notes are judged."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0005_cached_tokens'),
    ]

    operations = [
        migrations.AlterField(
            model_name='modelcall',
            name='purpose',
            field=models.CharField(choices=[('answer', 'Answer'), ('summary', 'Summary'), ('flush', 'Flush'), ('grade', 'Grade'), ('memory', 'Memory')], default='answer', max_length=7),
        ),
    ]
