"""Pages for people: chat and the list of sessions."""
