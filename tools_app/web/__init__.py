"""Web search, and fetching pages as text."""
