-- A sub-agent's row follows the turn that took its task, in the commit that ends it; so does the row of
-- a message whose reply is awaited. No other turn of that session answers for it.

CREATE FUNCTION spawn_follows_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE subagent_spawns w SET
    status = CASE WHEN new.status = 'completed' AND new.stop_reason = 'end_turn' THEN 'completed'
                  WHEN new.status = 'cancelled' THEN 'cancelled' ELSE 'failed' END,
    stop_reason = new.stop_reason, result = new.result, error = new.error,
    finished_at = clock_timestamp()
   WHERE w.child_session_id = new.session_id AND w.status = 'running'
     AND w.child_run_id = turn_root(new.id);
  RETURN NULL;
END $$;

CREATE TRIGGER spawn_ends_with_its_run AFTER UPDATE OF status ON agent_run_queue FOR EACH ROW
  WHEN (new.status IN ('completed', 'failed', 'cancelled', 'dead') AND old.status <> new.status
        AND new.stop_reason <> 'requires_action')
  EXECUTE FUNCTION spawn_follows_run();
