"""MCP servers of a workspace: their settings, discovery and calls."""
