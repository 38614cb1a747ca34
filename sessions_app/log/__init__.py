"""The session log: its only writer, its payloads, and the transcript that is read from it."""
