"""Fetching pages from the web and reading them."""
