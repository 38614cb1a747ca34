"""Agents, their versions, environments and model providers."""
