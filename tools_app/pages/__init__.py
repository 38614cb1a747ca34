"""Pages for people: the policy editor, MCP servers and skills."""
