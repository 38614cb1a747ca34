"""Streams the demo provider's answers: text a word at a time, and real tool calls."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar
from uuid import uuid4

from agents.exceptions import ContextOverflow, ProviderFault, ProviderRejected, ProviderUnavailable
from agents.providers.base import (
    JSON,
    Delta,
    Message,
    ModelRequest,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    estimate_request,
    estimate_tokens,
)
from agents.providers.demo.phrases import Call, Calls, Fail, Help, Say, Step, plan_of
from agents.providers.demo.records import FENCED, clip, record_for

INTRODUCTION = "I am the demo provider, not a model: I know a few phrases and call real tools."
QUOTE_LENGTH = 600

#: The phrase that shows off each tool.
EXAMPLES = {
    "memory_store": "remember that the office closes at six",
    "memory_search": "what do you know about the office?",
    "list_directory": "list the files",
    "write": "write hello to notes.md",
    "read": "read notes.md",
    "edit": "replace hello with goodbye in notes.md",
    "exec": "run ls -la",
    "web_fetch": "fetch https://example.com",
    "web_search": "search the web for switchyards",
    "sessions_spawn": "ask a sub-agent to list the files",
    "message": "tell me something",
    "wait": "wait for 20 seconds",
    "builder_update_agent": "make an agent that answers billing questions",
    "builder_set_policy": "let it read files but ask before running commands",
    "builder_add_step": "add a step that checks the invoice",
    "builder_get_agent": "show me the draft",
    "builder_publish": "publish it",
}
_FAILURES: dict[str, Callable[[], ProviderFault]] = {
    "overload": partial(ProviderUnavailable, "The demo provider was asked to be overloaded."),
    "rejection": partial(ProviderRejected, "The demo provider was asked to refuse."),
    "overflow": partial(ContextOverflow, "The demo provider was asked to find this too large."),
}
_WORD = re.compile(r"\S+\s*|\s+")
_DENIED = re.compile(r"\b(?:denied|refused|not allowed|may not|forbidden)\b", re.IGNORECASE)


class DemoProvider:
    """Answers by rules and keeps no state: the same messages always get the same answer.

    Only the messages from the user's last one on count. Every assistant message with tool calls
    among them is one step of the plan that was made.
    """

    DELAY_SECONDS: ClassVar[float] = 0.02

    def __init__(self, *, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay = delay_seconds

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer, a word at a time."""
        output: list[str] = []
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

    def _answer(self, request: ModelRequest) -> Iterator[TextDelta | ToolCall]:
        asked, since = _latest(request.messages)
        tools = {tool.name: tool for tool in request.tools}
        steps_made = sum(1 for message in since if message.calls)
        # Summaries and verdicts are not shown while they are written.
        delay = 0.0 if record_for(asked) is not None else self._delay
        steps = plan_of(asked, building="builder_update_agent" in tools)
        separator = ""
        for part in _parts(steps, steps_made, _last_results(since), tools):
            if isinstance(part, ToolCall):
                yield part
                continue
            for word in _WORD.findall(separator + part):
                if delay > 0:
                    time.sleep(delay)
                yield TextDelta(text=word)
            separator = "\n\n"


def _latest(messages: Sequence[Message]) -> tuple[str, tuple[Message, ...]]:
    """Return the user's last message and the messages after it."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return messages[index].text, tuple(messages[index + 1 :])
    return "", ()


def _last_results(since: Sequence[Message]) -> tuple[ToolResult, ...]:
    """Return the results of the newest step, which no answer has reported yet."""
    results: list[ToolResult] = []
    for message in reversed(since):
        if message.role != "tool":
            break
        results[:0] = message.results
    return tuple(results)


def _parts(
    steps: Sequence[Step],
    steps_made: int,
    results: tuple[ToolResult, ...],
    tools: Mapping[str, ToolSpec],
) -> Iterator[str | ToolCall]:
    """Yield the paragraphs of this answer, then its calls, if any are due."""
    if results:
        yield "\n\n".join(_report(result) for result in results)
    number = 0
    for step in steps:
        due = number == steps_made
        if isinstance(step, Calls):
            usable = [call for call in step.calls if call.tool in tools]
            if due:
                for call in step.calls:
                    if call.tool not in tools:
                        yield f"I would need the tool `{call.tool}`, which this agent may not use."
                yield from _calls(usable, tools, first=steps_made == 0)
            if due and usable:
                return
            number += 1 if usable else 0
        elif due:
            yield _text(step, tools)


def _calls(
    calls: Sequence[Call], tools: Mapping[str, ToolSpec], *, first: bool
) -> Iterator[str | ToolCall]:
    if not calls:
        return
    names = ", ".join(f"`{call.tool}`" for call in calls)
    announcement = f"I call {names}{' side by side' if len(calls) > 1 else ''}."
    yield f"{INTRODUCTION} {announcement}" if first else announcement
    for call in calls:
        arguments = call.arguments if call.literal else _accepted(call, tools[call.tool])
        yield ToolCall(call_id=f"call_{uuid4().hex}", name=call.tool, arguments=arguments)


def _accepted(call: Call, tool: ToolSpec) -> JSON:
    """Return only the arguments that the tool's schema names."""
    properties = tool.json_schema.get("properties")
    if not isinstance(properties, dict):
        return call.arguments
    return {name: value for name, value in call.arguments.items() if name in properties}


def _text(step: Say | Fail | Help, tools: Mapping[str, ToolSpec]) -> str:
    match step:
        case Say():
            return step.text
        case Help():
            return help_text(list(tools))
        case Fail():
            raise _FAILURES[step.kind]()


def help_text(offered: Sequence[str]) -> str:
    """Introduce the demo provider, and list what can be asked with these tools."""
    known = [f"- “{EXAMPLES[name]}” → `{name}`" for name in EXAMPLES if name in offered]
    others = [f"`{name}`" for name in offered if name not in EXAMPLES]
    lines = [INTRODUCTION, ""]
    if known:
        lines += ["With the tools of this agent you can ask:", "", *known, ""]
    if others:
        lines += [f"Other tools of this agent: {', '.join(others)}.", ""]
    if offered:
        lines += [
            f'Any tool can be tried with “use {offered[0]} with {{"name": "value"}}”.',
            "Join requests with “and then”, or write “in parallel: one; two”.",
        ]
    else:
        lines += ["This agent may use no tools, so I can only talk."]
    lines += [
        "I also understand “say …”, “say 50 words” and “count to 10”.",
        "For testing: “fail with overload”, “fail with rejection”, “fail with overflow”.",
    ]
    return "\n".join(lines)


def _report(result: ToolResult) -> str:
    """Say what a tool answered."""
    name, output = f"`{result.name}`", _readable(result.output)
    if result.is_error:
        verb = "was denied" if _DENIED.search(output) else "failed"
        return f"{name} {verb}: {_quote(output)}" if output else f"{name} {verb}."
    return f"{name} answered: {_quote(output)}" if output else f"{name} is done; it has no output."


def _readable(output: str) -> str:
    """Return an output without fences, and of a sub-agent's result only its text."""
    bare = FENCED.sub(lambda found: _readable(found[2]), output).strip()
    if not bare.startswith('{"result":'):
        return bare
    try:
        return str(json.loads(bare)["result"]).strip()
    except ValueError:
        return bare  # The output was cut.


def _quote(output: str) -> str:
    clipped = clip(output, QUOTE_LENGTH)
    if "\n" not in clipped:
        return f"“{clipped}”"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", clipped)), default=0))
    return f"\n\n{fence}\n{clipped}\n{fence}"
