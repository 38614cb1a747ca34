"""The tables of tools, one noun per module."""

from tools_app.models.custom import CustomTool
from tools_app.models.mcp_server import McpServer
from tools_app.models.policy import PolicyRevision, ToolPolicy
from tools_app.models.skill import Skill

__all__ = ["CustomTool", "McpServer", "PolicyRevision", "Skill", "ToolPolicy"]
