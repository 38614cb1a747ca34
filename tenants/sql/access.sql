-- Web processes cache who a key belongs to and what it may do. Every change of that is notified in its
-- commit, and the caches are emptied. Recording the last use of a key is no such change.

CREATE OR REPLACE FUNCTION notify_access_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('switchyard_access', '');
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER key_change_is_notified
  AFTER DELETE OR UPDATE OF workspace_id, name, prefix, digest, scope, expires_at, revoked_at, created_by_id
  ON tenants_apikey FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed();

CREATE OR REPLACE TRIGGER member_change_is_notified AFTER INSERT OR UPDATE OR DELETE
  ON tenants_membership FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed();

CREATE OR REPLACE TRIGGER user_change_is_notified AFTER DELETE OR UPDATE OF email, name, is_active, is_staff
  ON tenants_user FOR EACH STATEMENT EXECUTE FUNCTION notify_access_changed();
