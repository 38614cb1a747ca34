"""The REST doors of sessions: a noun per file."""
