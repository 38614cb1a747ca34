-- Webhooks hear of the end of every run and of every approval, in the commit that writes it.

-- A run ended, whichever step ended it. The data is the run as REST shows it.
CREATE OR REPLACE FUNCTION announce_run_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF webhook_exists(new.workspace_id) THEN
    PERFORM webhook_announce(new.workspace_id, jsonb_build_array(jsonb_build_object(
      'type', CASE new.status WHEN 'completed' THEN 'run.completed'
                              WHEN 'cancelled' THEN 'run.cancelled' ELSE 'run.failed' END,
      'timestamp', webhook_moment(clock_timestamp()),
      'data', jsonb_build_object('id', new.id, 'session_id', new.session_id, 'status', new.status,
        'attempts', new.attempts, 'result', new.result, 'error', new.error, 'usage', new.usage,
        'stop_reason', new.stop_reason, 'on_busy', new.on_busy, 'priority', new.priority,
        'overrides', CASE new.purpose WHEN 'turn' THEN new.wishes ELSE '{}' END,
        'created_by', new.created_by_id, 'created_at', webhook_moment(new.created_at),
        'started_at', webhook_moment(new.started_at),
        'finished_at', webhook_moment(new.finished_at)))));
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER run_end_is_announced AFTER UPDATE OF status ON agent_run_queue FOR EACH ROW
  WHEN (old.status IS DISTINCT FROM new.status
        AND new.status IN ('completed', 'failed', 'cancelled', 'dead'))
  EXECUTE FUNCTION announce_run_end();

CREATE OR REPLACE FUNCTION announce_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF webhook_exists(new.workspace_id) THEN
    PERFORM webhook_announce(new.workspace_id, jsonb_build_array(jsonb_build_object(
      'type', CASE WHEN new.status = 'pending' THEN 'approval.created' ELSE 'approval.resolved' END,
      'timestamp', webhook_moment(clock_timestamp()),
      'data', jsonb_build_object('id', new.id, 'subject', new.subject, 'subject_id', new.subject_id,
        'session_id', new.session_id, 'agent_id', new.agent_id, 'title', new.title,
        'reason', new.reason, 'status', new.status, 'scope', new.scope, 'note', new.note,
        'resolved_by', nullif(new.resolved_name, ''), 'expires_at', webhook_moment(new.expires_at),
        'created_at', webhook_moment(new.created_at),
        'resolved_at', webhook_moment(new.resolved_at)))));
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER approval_is_announced AFTER INSERT ON approvals FOR EACH ROW
  EXECUTE FUNCTION announce_approval();
CREATE OR REPLACE TRIGGER answer_is_announced AFTER UPDATE OF status ON approvals FOR EACH ROW
  WHEN (old.status = 'pending' AND new.status <> 'pending') EXECUTE FUNCTION announce_approval();
