-- Revisions of policies never change, except that a deleted author is forgotten.

CREATE OR REPLACE FUNCTION refuse_policy_revision_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  authored agent_tool_policy_revisions := new;
BEGIN
  IF new.created_by_id IS NULL THEN authored.created_by_id := old.created_by_id; END IF;
  IF authored IS DISTINCT FROM old THEN RAISE EXCEPTION 'policy revisions are immutable'; END IF;
  RETURN new;
END $$;
CREATE OR REPLACE TRIGGER policy_revision_is_immutable BEFORE UPDATE ON agent_tool_policy_revisions
  FOR EACH ROW EXECUTE FUNCTION refuse_policy_revision_change();
