"""The tables of agents, one noun per module."""

from agents.models.agent import Agent, AgentVersion
from agents.models.canvas import Canvas, CanvasRevision
from agents.models.draft import AgentDraft, DraftChange
from agents.models.environment import Environment
from agents.models.provider_key import ProviderKey

__all__ = [
    "Agent",
    "AgentDraft",
    "AgentVersion",
    "Canvas",
    "CanvasRevision",
    "DraftChange",
    "Environment",
    "ProviderKey",
]
