-- Versions of agents and revisions of canvases never change, except that a deleted author is forgotten.

CREATE OR REPLACE FUNCTION refuse_version_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  authored agents_agentversion := new;
BEGIN
  IF new.created_by_id IS NULL THEN authored.created_by_id := old.created_by_id; END IF;
  IF authored IS DISTINCT FROM old THEN RAISE EXCEPTION 'agent versions are immutable'; END IF;
  RETURN new;
END $$;
CREATE OR REPLACE TRIGGER version_is_immutable BEFORE UPDATE ON agents_agentversion
  FOR EACH ROW EXECUTE FUNCTION refuse_version_change();

CREATE OR REPLACE FUNCTION refuse_canvas_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  authored agents_canvasrevision := new;
BEGIN
  IF new.created_by_id IS NULL THEN authored.created_by_id := old.created_by_id; END IF;
  IF authored IS DISTINCT FROM old THEN RAISE EXCEPTION 'canvas revisions are immutable'; END IF;
  RETURN new;
END $$;
CREATE OR REPLACE TRIGGER canvas_revision_is_immutable BEFORE UPDATE ON agents_canvasrevision
  FOR EACH ROW EXECUTE FUNCTION refuse_canvas_change();
