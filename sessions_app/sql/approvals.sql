-- Approvals: answered once, closed together with the call that they are about.

CREATE OR REPLACE FUNCTION refuse_approval_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE kept approvals := new;
BEGIN
  IF old.status = 'pending' THEN RETURN new; END IF;
  -- A person who is deleted is forgotten; their name at that time stays.
  IF new.resolved_by_id IS NULL THEN kept.resolved_by_id := old.resolved_by_id; END IF;
  IF new.created_by_id IS NULL THEN kept.created_by_id := old.created_by_id; END IF;
  IF kept IS DISTINCT FROM old THEN RAISE EXCEPTION 'approvals are answered once'; END IF;
  RETURN new;
END $$;
CREATE OR REPLACE TRIGGER approval_is_answered_once BEFORE UPDATE ON approvals
  FOR EACH ROW EXECUTE FUNCTION refuse_approval_change();

-- Close the pending approvals of these subjects, because what asked no longer waits.
CREATE OR REPLACE FUNCTION approvals_close(asking text, ids uuid[], becomes text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approvals a SET status = becomes, resolved_at = clock_timestamp()
   WHERE a.subject = asking AND a.subject_id = ANY (ids) AND a.status = 'pending';
END $$;

-- Give the pending approvals of these subjects more time.
CREATE OR REPLACE FUNCTION approvals_postpone(asking text, ids uuid[], shift interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approvals a SET expires_at = a.expires_at + shift
   WHERE a.subject = asking AND a.subject_id = ANY (ids) AND a.status = 'pending';
END $$;

CREATE OR REPLACE FUNCTION cancel_approval_of_call() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE approvals a SET status = 'cancelled', resolved_at = clock_timestamp()
   WHERE a.execution_id = new.id AND a.status = 'pending';
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER approval_follows_its_call AFTER UPDATE OF state ON tool_executions
  FOR EACH ROW WHEN (old.state = 'awaiting_approval' AND new.state <> 'awaiting_approval')
  EXECUTE FUNCTION cancel_approval_of_call();
