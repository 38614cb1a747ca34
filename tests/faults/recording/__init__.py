"""An app for fault tests with a tool whose effects cannot be undone."""
