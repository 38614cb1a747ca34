"""Describes the vendors, for tests that must hold for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.providers.base import Message, ModelRequest, Provider, ToolSpec
from agents.providers.registry import build_provider
from tests.agents.providers.talk import ANTHROPIC_MODEL, GEMINI_MODEL, OPENAI_MODEL, request
from tests.wire.anthropic import AnthropicWire
from tests.wire.gemini import GeminiWire
from tests.wire.openai import OpenAIWire
from tests.wire.server import Wire


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """Holds a provider's name, its wire server, and a model that the server knows."""

    name: str
    wire: Callable[..., Wire]
    model: str

    def provider(self, wire: Wire, *, key: str = "", timeout: float = 10.0) -> Provider:
        return build_provider(
            self.name, api_key=key or wire.key, base_url=wire.url, timeout=timeout
        )

    def request(self, *messages: Message | str, tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
        return request(*messages, model=self.model, tools=tools)


VENDORS = (
    Vendor(name="gemini", wire=GeminiWire, model=GEMINI_MODEL),
    Vendor(name="openai", wire=OpenAIWire, model=OPENAI_MODEL),
    Vendor(name="anthropic", wire=AnthropicWire, model=ANTHROPIC_MODEL),
)
