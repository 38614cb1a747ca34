"""Pages for people: the keys to model providers."""
