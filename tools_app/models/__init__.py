"""The tables of tools, one noun per module."""

from tools_app.models.custom import CustomTool
from tools_app.models.policy import PolicyRevision, ToolPolicy

__all__ = ["CustomTool", "PolicyRevision", "ToolPolicy"]
