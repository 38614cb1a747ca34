"""Django's PostgreSQL backend, with a check of borrowed connections that needs no round trip."""
