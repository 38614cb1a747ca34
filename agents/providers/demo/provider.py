"""Streams the demo provider's answers: text a word at a time, and real tool calls."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from agents.exceptions import ContextOverflow, ProviderFault, ProviderRejected, ProviderUnavailable
from agents.providers.base import (
    ASIDE,
    ASIDE_END,
    JSON,
    Delta,
    Message,
    ModelFacts,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    estimate_request,
    estimate_tokens,
)
from agents.providers.demo.phrases import Call, Calls, Fail, Help, Say, Step, Told, plan_of
from agents.providers.demo.records import record_for
from agents.providers.demo.replies import INTRODUCTION, action_text, help_text, report, told_text

_FAILURES: dict[str, Callable[[], ProviderFault]] = {
    "overload": partial(ProviderUnavailable, "The demo provider was asked to be overloaded."),
    "rejection": partial(ProviderRejected, "The demo provider was asked to refuse."),
    "overflow": partial(ContextOverflow, "The demo provider was asked to find this too large."),
}
THOUGHT = "I compare the message with the phrases that I know, and follow the one that fits."
_WORD = re.compile(r"\S+\s*|\s+")
_ASIDE = re.compile(rf"\s*{re.escape(ASIDE)}.*?{re.escape(ASIDE_END)}\s*", re.DOTALL)


class DemoProvider:
    """Answers by rules and keeps no state.

    Only the messages from the user's last one on count, and what the user asked to remember. Every
    assistant message with tool calls among them is one step of the plan that was made.
    """

    DELAY_SECONDS: ClassVar[float] = 0.02

    def __init__(self, *, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay = delay_seconds

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer, a word at a time."""
        output: list[str] = []
        if request.effort not in {None, "off"}:
            yield from self._think()
        for delta in self._answer(request):
            output.append(
                delta.text
                if isinstance(delta, TextDelta)
                else delta.name + json.dumps(delta.arguments)
            )
            yield delta
        yield Usage(
            input_tokens=estimate_request(request), output_tokens=estimate_tokens("".join(output))
        )

    def check(self, model: str) -> None:
        """Do nothing: there is no server to reach."""

    def list_models(self) -> dict[str, ModelFacts]:
        return {}

    def _think(self) -> Iterator[ThinkingDelta]:
        for word in _WORD.findall(THOUGHT):
            if self._delay > 0:
                time.sleep(self._delay)
            yield ThinkingDelta(text=word)

    def _answer(self, request: ModelRequest) -> Iterator[TextDelta | ToolCall]:
        asked, since = _latest(request.messages)
        tools = {tool.name: tool for tool in request.tools}
        # Summaries and verdicts are not shown while they are written.
        delay = 0.0 if record_for(asked) is not None else self._delay
        steps = plan_of(asked, building="builder_update_agent" in tools)
        parts = _Parts(messages=request.messages, since=since, tools=tools)
        separator = ""
        for part in _shaped(parts.due(steps), request.response_schema):
            if isinstance(part, ToolCall):
                yield part
                continue
            for word in _WORD.findall(separator + part):
                if delay > 0:
                    time.sleep(delay)
                yield TextDelta(text=word)
            separator = "\n\n"


def _shaped(due: Iterable[str | ToolCall], schema: JSON | None) -> Iterable[str | ToolCall]:
    """Return the parts of an answer, or in place of its text a value that fits the schema."""
    if not schema:
        return due
    parts = list(due)
    if any(isinstance(part, ToolCall) for part in parts):
        return parts
    return [json.dumps(sample_of(schema))]


def sample_of(schema: Any) -> Any:
    """Return a small value that fits a plain schema."""
    if not isinstance(schema, dict):
        return None
    if choices := schema.get("enum"):
        return choices[0]
    match schema.get("type"):
        case "object":
            named = schema.get("properties") or {}
            return {name: sample_of(named.get(name)) for name in schema.get("required") or named}
        case "array":
            return [sample_of(schema.get("items"))] * (schema.get("minItems") or 0)
        case "string":
            return "demo".ljust(schema.get("minLength") or 0, ".")
        case "integer" | "number":
            return schema.get("minimum") or 0
        case "boolean":
            return False
        case _:
            return None


def _latest(messages: Sequence[Message]) -> tuple[str, tuple[Message, ...]]:
    """Return the user's last message and the messages after it."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and (said := _without_asides(messages[index].text)):
            return said, tuple(one for one in messages[index + 1 :] if one.role != "user")
    return "", ()


def _without_asides(text: str) -> str:
    """Return what the person wrote, without what the system added."""
    return _ASIDE.sub("", text)


def _last_results(since: Sequence[Message]) -> tuple[ToolResult, ...]:
    """Return the results of the newest step, which no answer has reported yet."""
    results: list[ToolResult] = []
    for message in reversed(since):
        if message.role != "tool":
            break
        results[:0] = message.results
    return tuple(results)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Finds the paragraphs and the calls of one answer."""

    messages: Sequence[Message]
    #: The messages after the user's last one.
    since: Sequence[Message]
    tools: Mapping[str, ToolSpec]

    def due(self, steps: Sequence[Step]) -> Iterator[str | ToolCall]:
        """Yield the paragraphs of this answer, then its calls, if any are due."""
        steps_made = sum(1 for message in self.since if message.calls)
        if results := _last_results(self.since):
            given = {call.call_id: call.arguments for one in self.since for call in one.calls}
            yield "\n\n".join(report(one, given.get(one.call_id, {})) for one in results)
        number = 0
        for step in steps:
            due = number == steps_made
            if isinstance(step, Calls):
                usable = [call for call in step.calls if call.tool in self.tools]
                if due:
                    yield from self._calls(step.calls)
                if due and usable:
                    return
                number += 1 if usable else 0
            elif due:
                yield self._text(step)

    def _calls(self, calls: Sequence[Call]) -> Iterator[str | ToolCall]:
        usable = [call for call in calls if call.tool in self.tools]
        for call in calls:
            if call.tool not in self.tools:
                yield f"I can't do that: this agent may not use the tool `{call.tool}`."
        if not usable:
            return
        actions = " ".join(f"{action_text(call.tool, call.arguments)}." for call in usable)
        # Said once in a chat, not before every call.
        is_new = not any(message.role == "assistant" for message in self.messages)
        yield f"{INTRODUCTION} {actions}" if is_new else actions
        for call in usable:
            given = call.arguments if call.literal else _accepted(call, self.tools[call.tool])
            yield ToolCall(call_id=f"call_{uuid4().hex}", name=call.tool, arguments=given)

    def _text(self, step: Say | Fail | Help | Told) -> str:
        match step:
            case Say():
                return step.text
            case Help():
                return help_text(self.tools, step.opening)
            case Told():
                return told_text(list(_facts(self.messages)))
            case Fail():
                raise _FAILURES[step.kind]()


def _facts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield what the user asked to remember in this chat."""
    for message in messages:
        if message.role == "user":
            for step in plan_of(_without_asides(message.text)):
                if isinstance(step, Calls):
                    yield from (
                        str(call.arguments.get("content", ""))
                        for call in step.calls
                        if call.tool == "memory_store"
                    )


def _accepted(call: Call, tool: ToolSpec) -> JSON:
    """Return only the arguments that the tool's schema names."""
    properties = tool.json_schema.get("properties")
    if not isinstance(properties, dict):
        return call.arguments
    return {name: value for name, value in call.arguments.items() if name in properties}
