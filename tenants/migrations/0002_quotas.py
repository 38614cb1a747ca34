import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# The owner who created a workspace is the one whose membership they created themselves.
SET_CREATOR = """
UPDATE tenants_workspace w SET created_by_id = m.user_id
  FROM tenants_membership m
 WHERE m.workspace_id = w.id AND m.role = 'owner' AND m.created_by_id = m.user_id
"""
# A model server that reported negative tokens could write these.
MEND_CALLS = """
UPDATE model_calls SET cost = greatest(cost, 0), input_tokens = greatest(input_tokens, 0),
       output_tokens = greatest(output_tokens, 0), cached_tokens = greatest(cached_tokens, 0)
 WHERE cost < 0 OR input_tokens < 0 OR output_tokens < 0 OR cached_tokens < 0
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.AddField(
            model_name="workspace",
            name="created_by",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunSQL(SET_CREATOR, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="sentmail",
            name="kind",
            field=models.CharField(
                choices=[("agent", "Agent"), ("invitation", "Invitation")],
                db_default="agent",
                default="agent",
                max_length=10,
            ),
        ),
        migrations.AddIndex(
            model_name="sentmail",
            index=models.Index(
                condition=models.Q(("kind", "invitation")),
                fields=["created_by", "created_at"],
                name="invitation_mail_by_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="creditentry",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind__in", ["charge", "sandbox"]), _negated=True),
                    ("amount__lte", 0),
                    _connector="OR",
                ),
                name="charge_adds_no_credits",
            ),
        ),
        migrations.RunSQL(MEND_CALLS, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="modelcall",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cached_tokens__gte", 0),
                    ("cost__gte", 0),
                    ("input_tokens__gte", 0),
                    ("output_tokens__gte", 0),
                ),
                name="call_costs_no_less_than_nothing",
            ),
        ),
    ]
