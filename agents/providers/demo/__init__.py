"""The demo provider: no model and no key, but real tool calls for plain requests."""

from agents.providers.demo.provider import DemoProvider

__all__ = ["DemoProvider"]
