"""The demo provider: needs no model and no key, and makes real tool calls for plain requests."""

from agents.providers.demo.provider import DemoProvider

__all__ = ["DemoProvider"]
