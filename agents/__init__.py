"""Agents, their versions and drafts, environments and model providers."""
