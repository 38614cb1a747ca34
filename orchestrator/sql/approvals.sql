-- Closes approvals with the workflow step that waits for them, and announces workflows to webhooks.

-- Close the approval in the commit that ends the step's wait, for whatever reason.
CREATE OR REPLACE FUNCTION close_approval_of_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM approvals_close('workflow', ARRAY[old.id], CASE
    WHEN tg_op = 'UPDATE' AND new.error ->> 'code' = 'timeout' THEN 'expired' ELSE 'cancelled' END);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER approval_follows_its_step AFTER UPDATE OF status ON workflow_steps FOR EACH ROW
  WHEN (old.kind = 'wait_for_approval' AND old.status = 'waiting' AND new.status <> 'waiting')
  EXECUTE FUNCTION close_approval_of_step();
CREATE OR REPLACE TRIGGER approval_goes_with_its_step AFTER DELETE ON workflow_steps FOR EACH ROW
  WHEN (old.kind = 'wait_for_approval' AND old.status = 'waiting')
  EXECUTE FUNCTION close_approval_of_step();

CREATE OR REPLACE FUNCTION close_approvals_of_workflow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM approvals_close('workflow', array_agg(s.id), 'cancelled') FROM workflow_steps s
   WHERE s.workflow_id = new.id AND s.kind = 'wait_for_approval' AND s.status = 'waiting';
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER approvals_follow_their_workflow AFTER UPDATE OF status ON workflows FOR EACH ROW
  WHEN (old.status <> new.status AND new.status IN ('errored', 'terminated'))
  EXECUTE FUNCTION close_approvals_of_workflow();

CREATE OR REPLACE FUNCTION announce_workflow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF webhook_exists(new.workspace_id) THEN
    PERFORM webhook_announce(new.workspace_id, jsonb_build_array(jsonb_build_object(
      'type', 'workflow.' || new.status, 'timestamp', webhook_moment(clock_timestamp()),
      'data', jsonb_build_object('id', new.id, 'key', new.key, 'name', new.name,
        'status', new.status, 'from', old.status, 'error', new.error,
        'created_at', webhook_moment(new.created_at),
        'finished_at', webhook_moment(new.finished_at)))));
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER workflow_is_announced AFTER UPDATE OF status ON workflows FOR EACH ROW
  WHEN (old.status IS DISTINCT FROM new.status) EXECUTE FUNCTION announce_workflow();
