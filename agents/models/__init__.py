"""The tables of the agents app."""

from agents.models.agent import (
    Agent,
    AgentDraft,
    AgentVersion,
    Canvas,
    CanvasRevision,
    DraftChange,
)
from agents.models.environment import Environment, ProviderKey, ProviderSettings

__all__ = [
    "Agent",
    "AgentDraft",
    "AgentVersion",
    "Canvas",
    "CanvasRevision",
    "DraftChange",
    "Environment",
    "ProviderKey",
    "ProviderSettings",
]
