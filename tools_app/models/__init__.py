"""The models of policies, custom tools, MCP servers and skills."""

from tools_app.models.policy import PolicyRevision, ToolPolicy
from tools_app.models.tools import CustomTool, McpServer, Skill

__all__ = ["CustomTool", "McpServer", "PolicyRevision", "Skill", "ToolPolicy"]
