"""Tests of what is accepted from a provider: storable text, bounded sizes, one kind of error."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from agents.exceptions import AnswerTooLarge, ProviderUnavailable
from agents.providers import answer_checks
from agents.providers.answer_checks import checked
from agents.providers.base import RAW, Delta, TextDelta, TextState, ToolCall, Usage


def accepted(*deltas: Any) -> list[Any]:
    return list(checked(iter(deltas), "m"))


def text_of(*pieces: str) -> str:
    return "".join(delta.text for delta in accepted(*(TextDelta(text=one) for one in pieces)))


def call(arguments: Any, name: str = "look") -> ToolCall:
    return ToolCall(call_id="c", name=name, arguments=arguments)


def test_nul_and_half_an_emoji_are_replaced_and_split_halves_are_joined():
    assert text_of("a\x00b", "c\ud83d") == "a\ufffdbc\ufffd"
    assert text_of("train \ud83d", "\ude82!") == "train 🚂!"
    assert text_of("\ude82", "\ud83d", "x") == "\ufffd\ufffdx"


def test_a_calls_name_id_and_arguments_are_storable():
    (made,) = accepted(
        ToolCall(call_id="c\x00", name="lo\ud800ok", arguments={"a\x00": ["\ud83d"]})
    )

    assert (made.call_id, made.name) == ("c\ufffd", "lo\ufffdok")
    assert made.arguments == {"a\ufffd": ["\ufffd"]}


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "arguments", [{"a": nested(200)}, {"n": 10**30}, ["no object"], {"s": {1}}]
)
def test_arguments_that_the_log_cannot_hold_are_told_to_the_model_as_text(arguments):
    (made,) = accepted(call(arguments))

    assert set(made.arguments) == {RAW}


def test_a_number_that_json_lacks_becomes_null():
    assert accepted(call({"n": float("nan")}))[0].arguments == {"n": None}


@pytest.mark.parametrize(
    ("stream", "bound", "unit"),
    [
        (repeat(TextDelta(text="x" * 5_000)), "MAX_TEXT", "characters of text"),
        (repeat(call({"a": "x" * 20_000})), "MAX_ARGUMENTS", "characters of tool arguments"),
        (repeat(call({})), "MAX_CALLS", "tool calls"),
        (repeat(TextState(provider_state="x" * 5_000)), "MAX_STATE", "provider state"),
    ],
)
def test_an_endless_answer_is_stopped_at_its_bound(stream: Iterator[Delta], bound: str, unit: str):
    taken: list[Delta] = []
    with pytest.raises(AnswerTooLarge, match=unit):
        taken.extend(checked(stream, "m"))

    assert len(taken) <= getattr(answer_checks, bound)


def test_counts_that_would_pay_the_workspace_are_refused():
    negative = Usage(input_tokens=-5, output_tokens=10**20, cache_read_tokens=7)
    mistyped: Any = Usage(input_tokens="7", output_tokens=None, cache_read_tokens=True)  # type: ignore[arg-type]

    assert accepted(negative) == [
        Usage(input_tokens=0, output_tokens=2**31 - 1, cache_read_tokens=0)
    ]
    assert accepted(mistyped) == [Usage()]


@pytest.mark.parametrize("wrong", [TextDelta(text=5), call({}, name=["x"])])  # type: ignore[arg-type]
def test_what_an_adapter_cannot_read_is_a_fault_of_the_provider(wrong):
    with pytest.raises(ProviderUnavailable, match="m sent an answer that cannot be read"):
        accepted(wrong)


def test_an_error_of_an_adapter_is_a_fault_of_the_provider():
    def broken() -> Iterator[Delta]:
        yield TextDelta(text="one")
        raise RecursionError

    with pytest.raises(ProviderUnavailable, match="RecursionError"):
        list(checked(broken(), "m"))
