"""REST views of memory."""
