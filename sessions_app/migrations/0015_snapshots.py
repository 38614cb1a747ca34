"""Snapshots of the context, runs that compact it, and what a session remembers of both."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.ids
from django.conf import settings
from django.db import migrations, models

# Only what undoes it may change, once; and a person who left may be forgotten.
TRIGGER = """
CREATE FUNCTION refuse_snapshot_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (to_jsonb(new) - '{undone_at,undone_by_id,created_by_id}'::text[])
     IS DISTINCT FROM (to_jsonb(old) - '{undone_at,undone_by_id,created_by_id}'::text[])
     OR (new.created_by_id IS DISTINCT FROM old.created_by_id AND new.created_by_id IS NOT NULL)
     OR (old.undone_at IS NOT NULL AND (new.undone_at IS DISTINCT FROM old.undone_at
         OR (new.undone_by_id IS DISTINCT FROM old.undone_by_id AND new.undone_by_id IS NOT NULL))) THEN
    RAISE EXCEPTION 'snapshots are immutable';
  END IF;
  RETURN new;
END $$;
CREATE TRIGGER snapshot_is_immutable BEFORE UPDATE ON agent_context_snapshots
  FOR EACH ROW EXECUTE FUNCTION refuse_snapshot_change();
"""

NEXT = """
CREATE OR REPLACE FUNCTION lane_next(s agent_sessions, rest text, owner uuid, lease double precision,
  deadline double precision, OUT run uuid, OUT epoch bigint)
LANGUAGE plpgsql AS $$
DECLARE q agent_run_queue;
BEGIN
  SELECT * INTO q FROM agent_run_queue w
   WHERE w.session_id = s.id AND w.status = 'queued'
     AND (w.not_before IS NULL OR w.not_before <= clock_timestamp())
     AND (rest <> 'requires_action' OR w.resumes)
   ORDER BY w.resumes DESC, w.priority DESC, w.rank, w.id LIMIT 1;
  IF NOT FOUND OR owner IS NULL THEN
    UPDATE agent_sessions SET last_seq = s.last_seq, lane_epoch = s.lane_epoch, status = rest,
      input_tokens = s.input_tokens, output_tokens = s.output_tokens, cost = s.cost,
      lease_owner = NULL, lease_expires = NULL, active_at = clock_timestamp() WHERE id = s.id;
    RETURN;
  END IF;
  run := q.id;
  epoch := s.lane_epoch + 1;
  UPDATE agent_run_queue w SET status = 'running', attempts = w.attempts + 1, epoch = lane_next.epoch,
    claimed_seq = s.last_seq + 1, not_before = NULL,
    started_at = coalesce(w.started_at, clock_timestamp()),
    deadline = clock_timestamp() + make_interval(secs => lane_next.deadline)
   WHERE w.id = run;
  UPDATE session_messages m SET processed_at = clock_timestamp(), processed_run_id = run
   WHERE m.session_id = s.id AND m.seq = ANY (q.message_seqs) AND m.processed_at IS NULL;
  s.last_seq := log_write(s, jsonb_build_array(status_event(rest, 'running',
    CASE WHEN q.attempts > 0 THEN 'recovered' WHEN q.resumes THEN 'resumed'
         WHEN q.purpose = 'compact' THEN 'compaction' ELSE 'message' END)),
    run, NULL);
  UPDATE agent_sessions SET last_seq = s.last_seq, lane_epoch = lane_next.epoch, status = 'running',
    input_tokens = s.input_tokens, output_tokens = s.output_tokens, cost = s.cost,
    lease_owner = owner, lease_expires = clock_timestamp() + make_interval(secs => lease),
    active_at = clock_timestamp() WHERE id = s.id;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0014_approvals_are_announced"),
        ("tenants", "0006_webhooks_inbox"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="purpose",
            field=models.CharField(
                choices=[("turn", "Turn"), ("compact", "Compact")],
                db_default="turn",
                default="turn",
                max_length=7,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="wishes",
            field=models.JSONField(db_default={}, default=dict, editable=False),
        ),
        migrations.AddField(
            model_name="session",
            name="compact_after_seq",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="session",
            name="flushed_seq",
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.CreateModel(
            name="ContextSnapshot",
            fields=[
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "id",
                    models.UUIDField(
                        default=tenants.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "trigger",
                    models.CharField(
                        choices=[("auto", "Auto"), ("overflow", "Overflow"), ("manual", "Manual")],
                        max_length=8,
                    ),
                ),
                ("first_seq", models.BigIntegerField()),
                ("last_seq", models.BigIntegerField()),
                ("first_kept_seq", models.BigIntegerField()),
                (
                    "carried",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
                ("summary", models.TextField()),
                ("model", models.CharField(max_length=200)),
                ("tokens_before", models.PositiveIntegerField()),
                ("tokens_after", models.PositiveIntegerField()),
                (
                    "memory_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), default=list, size=None
                    ),
                ),
                ("undone_at", models.DateTimeField(editable=False, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "previous",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.contextsnapshot",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="sessions_app.run",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="snapshots",
                        to="sessions_app.session",
                    ),
                ),
                (
                    "undone_by",
                    models.ForeignKey(
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenants.workspace",
                    ),
                ),
            ],
            options={
                "db_table": "agent_context_snapshots",
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["session", "-id"], name="snapshot_by_session"),
                    models.Index(
                        condition=models.Q(("undone_at", None)),
                        fields=["session", "-id"],
                        name="snapshot_active",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("first_seq__gte", 1), ("last_seq__gte", models.F("first_seq"))
                        ),
                        name="snapshot_stands_for_something",
                    )
                ],
            },
        ),
        migrations.RunSQL(TRIGGER),
        migrations.RunSQL(NEXT),
    ]
