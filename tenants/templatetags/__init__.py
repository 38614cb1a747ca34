"""Template tags of tenants."""
