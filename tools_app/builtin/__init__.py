"""The built-in tools, one subject per module."""
