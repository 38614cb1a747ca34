"""Compaction: a summary takes the place of the oldest messages in what the model sees, and can be undone."""
