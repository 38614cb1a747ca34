"""MCP servers of a workspace: known, asked what they offer, called."""
