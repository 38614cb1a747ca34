"""Checks what a provider streams before it is used: bounded in size, readable and storable.

A server can send anything. Whatever it sends ends in deltas that the log can hold, or in one
ProviderFault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import structlog
from pydantic import ValidationError

from agents.exceptions import AnswerTooLarge, ProviderUnavailable
from agents.providers.base import (
    JSON,
    RAW,
    Delta,
    ModelFacts,
    TextDelta,
    TextState,
    ThinkingDelta,
    ThinkingState,
    Tick,
    ToolCall,
    Truncated,
    Usage,
)
from core.exceptions import Fault
from core.validation import fit_json, is_storable, storable

log = structlog.get_logger(__name__)

#: Characters of one answer: its text, the arguments of all its calls, and the provider's state.
#: The longest answers of today's models are half as long.
MAX_TEXT = 1_000_000
MAX_THINKING = 1_000_000
MAX_ARGUMENTS = 1_000_000
MAX_STATE = 1_000_000
MAX_CALLS = 128
MAX_NAME = 200
#: Models of one server, and the characters of a name.
MOST_LISTED = 1_000
MAX_MODEL_NAME = 120
#: What is kept of arguments that are no JSON object.
MAX_RAW = 20_000


@dataclass(kw_only=True)
class AnswerSize:
    """Counts what an answer holds so far. Each method raises AnswerTooLarge beyond its bound."""

    text: int = 0
    thinking: int = 0
    arguments: int = 0
    state: int = 0
    calls: int = 0

    def add_text(self, length: int) -> None:
        self.text = _bounded(self.text + length, MAX_TEXT, "characters of text")

    def add_thinking(self, length: int) -> None:
        whole = self.thinking + length
        self.thinking = _bounded(whole, MAX_THINKING, "characters of thinking")

    def add_arguments(self, length: int) -> None:
        whole = self.arguments + length
        self.arguments = _bounded(whole, MAX_ARGUMENTS, "characters of tool arguments")

    def add_state(self, length: int) -> None:
        self.state = _bounded(self.state + length, MAX_STATE, "characters of provider state")

    def add_call(self) -> None:
        self.calls = _bounded(self.calls + 1, MAX_CALLS, "tool calls")


def _bounded(count: int, most: int, unit: str) -> int:
    if count > most:
        raise AnswerTooLarge(f"The model's answer was stopped: it has more than {most:,} {unit}.")
    return count


def checked(stream: Iterator[Delta], model: str) -> Iterator[Delta]:
    """Yield the deltas of an answer in a form that can be stored.

    An error that is no fault means that the server sent what its adapter cannot read.
    """
    cleaner = _Cleaner()
    try:
        for delta in stream:
            yield from cleaner.clean(delta)
        yield from cleaner.finish()
    except Fault:
        raise
    except Exception as error:
        log.warning("answer_not_readable", model=model, exc_info=True)
        reason = type(error).__name__
        raise ProviderUnavailable(
            f"{model} sent an answer that cannot be read ({reason})."
        ) from error


class _Cleaner:
    """Cleans the deltas of one answer."""

    def __init__(self) -> None:
        self._size = AnswerSize()
        #: The first half of a surrogate pair, whose second half may come with the next delta.
        self._half = ""

    def clean(self, delta: Delta) -> Iterator[Delta]:
        match delta:
            case TextDelta():
                yield from self._clean_text(delta)
            case Tick() | Truncated() | Usage():
                yield delta
            case ToolCall():
                yield self._clean_call(delta)
            case TextState(provider_state=state):
                self._size.add_state(len(state))
                yield TextState(provider_state=storable(state))
            case ThinkingDelta(text=text):
                self._size.add_thinking(len(text))
                yield ThinkingDelta(text=storable(text))
            case ThinkingState(provider_state=state):
                self._size.add_state(len(state))
                yield ThinkingState(provider_state=storable(state))

    def finish(self) -> Iterator[Delta]:
        if self._half:
            yield TextDelta(text=storable(self._half))

    def _clean_text(self, delta: TextDelta) -> Iterator[Delta]:
        self._size.add_text(len(delta.text))
        if not self._half and delta.text.isascii() and "\x00" not in delta.text:
            yield delta
            return
        text = self._half + delta.text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if text := storable(text.removesuffix(self._half)):
            yield TextDelta(text=text)

    def _clean_call(self, call: ToolCall) -> ToolCall:
        self._size.add_call()
        arguments, length = _clean_arguments(call.arguments)
        self._size.add_arguments(length)
        self._size.add_state(len(call.provider_state or ""))
        return replace(
            call,
            call_id=storable(call.call_id)[:MAX_NAME],
            name=storable(call.name)[:MAX_NAME],
            arguments=arguments,
            provider_state=storable(call.provider_state) if call.provider_state else None,
        )


def _clean_arguments(arguments: Any) -> tuple[JSON, int]:
    """Return the arguments and their length. What is no storable JSON object is kept as text."""
    try:
        fitted = fit_json(arguments)
    except ValueError as error:
        fitted = {RAW: f"({error})"}
    if not isinstance(fitted, dict):
        fitted = {RAW: str(fitted)[:MAX_RAW]}
    return fitted, len(orjson.dumps(fitted))


def parse_arguments(text: str) -> JSON:
    """Parse arguments as an object; anything else is kept whole under `_raw`."""
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return {RAW: text}
    return arguments if isinstance(arguments, dict) else {RAW: text}


def checked_models(listed: Iterable[tuple[object, Mapping[str, object]]]) -> dict[str, ModelFacts]:
    """Return the usable part of a server's list of models: plausible names and plausible facts."""
    found: dict[str, ModelFacts] = {}
    for name, told in listed:
        if len(found) >= MOST_LISTED:
            break
        if isinstance(name, str) and _is_model_name(name):
            found[name] = _plausible(told)
    return found


def _is_model_name(name: str) -> bool:
    return 0 < len(name) <= MAX_MODEL_NAME and name.isprintable() and is_storable(name)


def _plausible(told: Mapping[str, object]) -> ModelFacts:
    facts = ModelFacts()
    for name, value in told.items():
        try:
            facts = ModelFacts.model_validate({name: value}).or_else(facts)
        except ValidationError:
            log.debug("fact_dropped", fact=name)
    return facts
