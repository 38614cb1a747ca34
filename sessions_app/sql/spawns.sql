-- Ends the row of a sub-agent, or of an awaited reply, in the commit that ends the turn which took the
-- task. Other turns of that session do not change it.

CREATE OR REPLACE FUNCTION spawn_follows_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE subagent_spawns w SET
    status = CASE WHEN new.status = 'completed' AND new.stop_reason IN ('end_turn', 'max_tokens') THEN 'completed'
                  WHEN new.status = 'cancelled' THEN 'cancelled' ELSE 'failed' END,
    stop_reason = new.stop_reason, result = new.result, error = new.error,
    finished_at = clock_timestamp()
   WHERE w.child_session_id = new.session_id AND w.status = 'running'
     AND w.child_run_id = turn_root(new.id);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER spawn_ends_with_its_run AFTER UPDATE OF status ON agent_run_queue FOR EACH ROW
  WHEN (new.status IN ('completed', 'failed', 'cancelled', 'dead') AND old.status <> new.status
        AND new.stop_reason <> 'requires_action')
  EXECUTE FUNCTION spawn_follows_run();
