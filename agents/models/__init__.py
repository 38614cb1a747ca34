"""The tables of agents, one noun per module."""

from agents.models.agent import Agent, AgentVersion
from agents.models.environment import Environment
from agents.models.provider_key import ProviderKey

__all__ = ["Agent", "AgentVersion", "Environment", "ProviderKey"]
