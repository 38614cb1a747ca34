"""REST views of tools and policies."""
