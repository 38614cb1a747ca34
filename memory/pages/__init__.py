"""Pages for people: the memory editor."""
