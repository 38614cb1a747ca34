"""The pages of policies, MCP servers, custom tools and skills."""
