"""A run remembers the key that sent its message."""

from django.db import migrations, models

ACCEPT = """
CREATE OR REPLACE FUNCTION lane_accept(sid uuid, event jsonb, author uuid, mode text, prio smallint, run_id uuid,
  OUT seq bigint, OUT run uuid, OUT event_id uuid, OUT replayed boolean)
LANGUAGE plpgsql AS $$
DECLARE s agent_sessions; first_rank double precision;
BEGIN
  s := lane_lock(sid, NULL);
  replayed := false;
  IF event ->> 'dedupe_key' IS NOT NULL THEN
    SELECT m.seq, m.id INTO seq, event_id FROM session_messages m
     WHERE m.session_id = sid AND m.dedupe_key = event ->> 'dedupe_key';
    IF FOUND THEN
      SELECT q.id INTO run FROM agent_run_queue q
       WHERE q.session_id = sid AND q.message_seqs @> ARRAY[lane_accept.seq]
       ORDER BY q.created_at LIMIT 1;
      replayed := true;
      RETURN;
    END IF;
  END IF;
  IF s.status = 'terminated' OR s.archived_at IS NOT NULL THEN
    RAISE EXCEPTION 'the session has ended' USING errcode = 'SY410';
  END IF;
  IF mode = 'reject' AND (s.status <> 'idle' OR EXISTS (
      SELECT 1 FROM agent_run_queue q WHERE q.session_id = sid AND q.status = 'queued')) THEN
    RAISE EXCEPTION 'the session is busy' USING errcode = 'SY409';
  END IF;

  seq := log_write(s, jsonb_build_array(event), NULL, author);
  event_id := (event ->> 'id')::uuid;
  UPDATE agent_sessions SET last_seq = lane_accept.seq, active_at = clock_timestamp() WHERE id = sid;

  IF mode = 'steer' THEN
    UPDATE agent_run_queue q SET message_seqs = q.message_seqs || lane_accept.seq
     WHERE q.session_id = sid AND q.status = 'running' RETURNING q.id INTO run;
  ELSIF mode = 'collect' THEN
    UPDATE agent_run_queue q SET message_seqs = q.message_seqs || lane_accept.seq
     WHERE q.id = (SELECT w.id FROM agent_run_queue w WHERE w.session_id = sid
                    AND w.status = 'queued' AND w.on_busy = 'collect' ORDER BY w.rank DESC LIMIT 1)
    RETURNING q.id INTO run;
  ELSIF mode = 'interrupt' THEN
    SELECT min(q.rank) - 1 INTO first_rank FROM agent_run_queue q
     WHERE q.session_id = sid AND q.status = 'queued';
  END IF;
  IF run IS NULL THEN
    run := run_id;
    INSERT INTO agent_run_queue
      (id, workspace_id, session_id, created_by_id, key_id, on_busy, priority, rank, message_seqs,
       created_at)
    VALUES (run, s.workspace_id, sid, author, (event ->> 'key_id')::uuid, mode, prio,
            coalesce(first_rank, seq), ARRAY[seq], clock_timestamp());
    IF s.status IN ('idle', 'rescheduling') THEN PERFORM pg_notify('switchyard_wake', sid::text); END IF;
  END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0005_fewer_indexes")]
    operations = [
        migrations.AddField(
            model_name="run",
            name="key_id",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.RunSQL(ACCEPT, migrations.RunSQL.noop),
    ]
