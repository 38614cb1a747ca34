"""REST endpoints of sessions, one module per noun."""
