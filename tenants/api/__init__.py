"""REST views of tenants, and the base classes of every app's views."""
