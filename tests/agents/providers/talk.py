"""Helpers for tests that call a provider."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agents.providers.base import (
    Delta,
    Effort,
    Message,
    ModelRequest,
    Provider,
    TextDelta,
    TextState,
    Thinking,
    ThinkingDelta,
    ThinkingState,
    Tick,
    ToolCall,
    ToolResult,
    ToolSpec,
    Truncated,
    Usage,
)

GEMINI_MODEL = "gemini-3.8-flash"
OPENAI_MODEL = "gpt-6-luna"
ANTHROPIC_MODEL = "claude-sonnet-5-5"


@dataclass(kw_only=True)
class CompleteAnswer:
    """Collects the deltas of an answer, as the harness does."""

    pieces: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage | None = None
    text_state: str | None = None
    thoughts: list[str] = field(default_factory=list)
    thinking_state: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def as_message(self) -> Message:
        return Message(
            role="assistant",
            text=self.text,
            calls=tuple(self.calls),
            provider_state=self.text_state,
            thinking=Thinking(text="".join(self.thoughts), provider_state=self.thinking_state)
            if self.thinking_state
            else None,
        )


def tool(name: str, *properties: str) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {one: {"type": "string"} for one in properties},
        "required": list(properties),
    }
    return ToolSpec(name=name, description=f"The tool {name}.", json_schema=schema)


WEATHER = tool("weather", "city")
CLOCK = tool("clock", "zone")


def user(text: str) -> Message:
    return Message(role="user", text=text)


def results(*calls: ToolCall, output: str = "fine", is_error: bool = False) -> Message:
    """Return one tool message with results for all these calls."""
    answered = tuple(
        ToolResult(call_id=call.call_id, name=call.name, output=output, is_error=is_error)
        for call in calls
    )
    return Message(role="tool", results=answered)


def request(
    *messages: Message | str,
    model: str = "demo",
    tools: Iterable[ToolSpec] = (),
    instructions: str = "Be brief.",
    max_tokens: int | None = None,
    temperature: float | None = None,
    effort: Effort | None = None,
) -> ModelRequest:
    conversation = tuple(user(one) if isinstance(one, str) else one for one in messages)
    return ModelRequest(
        model=model,
        instructions=instructions,
        messages=conversation,
        tools=tuple(tools),
        max_tokens=max_tokens,
        temperature=temperature,
        effort=effort,
    )


def complete(provider: Provider, asked: ModelRequest) -> CompleteAnswer:
    """Send a request and return the whole answer."""
    answer = CompleteAnswer()
    for delta in provider.stream(asked):
        add_delta(answer, delta)
    return answer


def add_delta(answer: CompleteAnswer, delta: Delta) -> None:
    match delta:
        case TextDelta():
            answer.pieces.append(delta.text)
        case ToolCall():
            answer.calls.append(delta)
        case TextState():
            answer.text_state = delta.provider_state
        case ThinkingDelta():
            answer.thoughts.append(delta.text)
        case ThinkingState():
            answer.thinking_state = delta.provider_state
        case Usage():
            answer.usage = delta
        case Tick() | Truncated():
            pass
