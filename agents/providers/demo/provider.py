"""The demo provider: streams words and calls tools by plain rules."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar
from uuid import uuid4

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
)
from agents.providers.demo.building import UPDATE
from agents.providers.demo.grading import is_grade_request
from agents.providers.demo.plan import plan_of
from agents.providers.demo.records import is_record_request
from agents.providers.demo.steps import Calls, Fail, Help, Say, Step, Wish
from agents.providers.demo.words import WHO, account, announcement, help_text, missing
from agents.providers.estimate import estimate_request, estimate_tokens
from config.faults import ContextOverflow, ProviderFault, ProviderRejected, ProviderUnavailable

_FAILURES: dict[str, Callable[[], ProviderFault]] = {
    "overload": partial(ProviderUnavailable, "The demo provider was asked to be overloaded."),
    "rejection": partial(ProviderRejected, "The demo provider was asked to refuse."),
    "overflow": partial(ContextOverflow, "The demo provider was asked to find this too large."),
}
_WORD = re.compile(r"\S+\s*|\s+")


class DemoProvider:
    """Answers by rules. It keeps nothing: the same messages always get the same answer.

    Only the messages from the last one of the user on are looked at. How far the plan has come is
    read from them: every assistant message with calls since then is one step that was made.
    """

    DELAY_SECONDS: ClassVar[float] = 0.02

    def __init__(self, *, delay_seconds: float = DELAY_SECONDS) -> None:
        self._delay = delay_seconds

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer, a word at a time."""
        tokens_in, said = estimate_request(request), []
        for delta in self._answer(request):
            said.append(
                delta.text
                if isinstance(delta, TextDelta)
                else delta.name + json.dumps(delta.arguments)
            )
            yield delta
        yield Usage(input_tokens=tokens_in, output_tokens=estimate_tokens("".join(said)))

    def check(self, model: str) -> None:
        """There is nothing to reach."""

    def _answer(self, request: ModelRequest) -> Iterator[TextDelta | ToolCall]:
        asked, since = _latest(request.messages)
        tools = {tool.name: tool for tool in request.tools}
        made = sum(1 for message in since if message.calls)
        # Records and verdicts are read by nobody as they come, so they need not come word by word.
        unwatched = is_record_request(asked) or is_grade_request(asked)
        delay = 0.0 if unwatched else self._delay
        spoken = False
        steps = plan_of(asked, building=UPDATE in tools)
        for part in _parts(steps, made, _last_results(since), tools):
            if isinstance(part, str):
                yield from _speak(f"\n\n{part}" if spoken else part, delay)
                spoken = True
            else:
                yield part


def _speak(text: str, delay: float) -> Iterator[TextDelta]:
    for word in _WORD.findall(text):
        if delay > 0:
            time.sleep(delay)
        yield TextDelta(text=word)


def _latest(messages: Sequence[Message]) -> tuple[str, tuple[Message, ...]]:
    """The user's last message and what came after it."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            return messages[place].text, tuple(messages[place + 1 :])
    return "", ()


def _last_results(since: Sequence[Message]) -> tuple[ToolResult, ...]:
    """The results of the newest step, which were not spoken of yet."""
    results: list[ToolResult] = []
    for message in reversed(since):
        if message.role != "tool":
            break
        results[:0] = message.results
    return tuple(results)


def _parts(
    steps: Sequence[Step],
    made: int,
    results: tuple[ToolResult, ...],
    tools: Mapping[str, ToolSpec],
) -> Iterator[str | ToolCall]:
    """The paragraphs of this answer, then its calls, if any are due."""
    if results:
        yield account(results)
    number = 0
    for step in steps:
        due = number == made
        if isinstance(step, Calls):
            able = [wish for wish in step.wishes if wish.tool in tools]
            if due:
                yield from (missing(wish.tool) for wish in step.wishes if wish.tool not in tools)
                yield from _calls(able, tools, first=made == 0)
            if due and able:
                return
            number += 1 if able else 0
        elif due:
            yield _spoken(step, tools)


def _calls(
    wishes: Sequence[Wish], tools: Mapping[str, ToolSpec], *, first: bool
) -> Iterator[str | ToolCall]:
    if not wishes:
        return
    told = announcement([wish.tool for wish in wishes])
    yield f"{WHO} {told}" if first else told
    for wish in wishes:
        arguments = wish.arguments if wish.literal else _fitting(wish, tools[wish.tool])
        yield ToolCall(call_id=f"call_{uuid4().hex}", name=wish.tool, arguments=arguments)


def _fitting(wish: Wish, tool: ToolSpec) -> JSON:
    """Only the arguments that the tool's schema names."""
    properties = tool.json_schema.get("properties")
    if not isinstance(properties, dict):
        return wish.arguments
    return {name: value for name, value in wish.arguments.items() if name in properties}


def _spoken(step: Say | Fail | Help, tools: Mapping[str, ToolSpec]) -> str:
    match step:
        case Say():
            return step.text
        case Help():
            return help_text(list(tools))
        case Fail():
            raise _FAILURES[step.kind]()
