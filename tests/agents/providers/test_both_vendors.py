"""Tests that hold for every vendor's adapter, through its real client over real HTTP."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import cast

import pytest

from agents.exceptions import ProviderRejected, ProviderUnavailable
from agents.providers.base import Delta, Message, TextDelta, ToolCall, ToolSpec, Truncated, Usage
from tests.agents.providers.talk import CLOCK, WEATHER, complete, results, tool
from tests.agents.providers.vendors import VENDORS, Vendor
from tests.wire.answers import Answer, Call, Counts

LIMITS = {"gemini": "MAX_TOKENS", "openai": "length", "anthropic": "max_tokens"}
pytestmark = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)


def test_text_arrives_in_pieces_and_in_order(vendor: Vendor):
    with vendor.wire([Answer(text=("Hel", "lo ", "you"))]) as wire:
        answer = complete(vendor.provider(wire), vendor.request("hi"))

    assert answer.pieces == ["Hel", "lo ", "you"]
    assert answer.calls == []


def test_a_piece_is_delivered_before_the_next_one_is_sent(vendor: Vendor):
    release = Event()
    with vendor.wire([Answer(text=("first", "second"), hold=release)]) as wire:
        deltas = vendor.provider(wire).stream(vendor.request("hi"))
        first = next(deltas)
        release.set()
        rest = [delta for delta in deltas if isinstance(delta, TextDelta)]

    assert first == TextDelta(text="first")
    assert rest == [TextDelta(text="second")]


def test_thoughts_are_no_part_of_the_text(vendor: Vendor):
    with vendor.wire([Answer(thoughts="let me see", text=("42",))]) as wire:
        answer = complete(vendor.provider(wire), vendor.request("hi"))

    assert answer.text == "42"
    assert answer.thoughts == ["let me see"]


def test_usage_counts_thoughts_as_output_and_reports_cached_tokens(vendor: Vendor):
    counts = Counts(input_tokens=100, output_tokens=20, cached_tokens=60, thought_tokens=5)
    with vendor.wire([Answer(text=("ok",), counts=counts)]) as wire:
        answer = complete(vendor.provider(wire), vendor.request("hi"))

    assert answer.usage == Usage(input_tokens=100, output_tokens=25, cache_read_tokens=60)


def test_parallel_calls_arrive_complete_and_their_results_are_accepted(vendor: Vendor):
    calls = (
        Call(name="weather", arguments={"city": "Zürich"}, id="c1", signature=b"signed"),
        Call(name="clock", arguments={"zone": "Europe/Zurich"}, id="c2"),
    )
    with vendor.wire(
        [Answer(text=("One moment.",), calls=calls), Answer(text=("Sunny.",))]
    ) as wire:
        provider = vendor.provider(wire)
        first = complete(provider, vendor.request("weather and time?", tools=(WEATHER, CLOCK)))
        second = complete(
            provider,
            vendor.request(
                "weather and time?",
                first.as_message(),
                results(*first.calls),
                tools=(WEATHER, CLOCK),
            ),
        )

    assert [(call.call_id, call.name, call.arguments) for call in first.calls] == [
        ("c1", "weather", {"city": "Zürich"}),
        ("c2", "clock", {"zone": "Europe/Zurich"}),
    ]
    assert first.text == "One moment."
    assert second.text == "Sunny."


def test_results_in_separate_messages_are_accepted_like_one_message(vendor: Vendor):
    calls = (Call(name="weather", id="c1", signature=b"s"), Call(name="clock", id="c2"))
    with vendor.wire([Answer(calls=calls), Answer(text=("ok",))]) as wire:
        provider = vendor.provider(wire)
        first = complete(provider, vendor.request("go", tools=(WEATHER, CLOCK)))
        tool_results = [results(call) for call in first.calls]
        again = vendor.request("go", first.as_message(), *tool_results, tools=(WEATHER, CLOCK))

        assert complete(provider, again).text == "ok"


def test_a_message_sent_while_tools_ran_follows_their_results(vendor: Vendor):
    with vendor.wire([Answer(calls=(Call(name="weather", id="c1", signature=b"s"),))]) as wire:
        provider = vendor.provider(wire)
        first = complete(provider, vendor.request("go", tools=(WEATHER,)))
        history = ("go", first.as_message(), results(*first.calls), "in Bern, I mean")

        assert complete(provider, vendor.request(*history, tools=(WEATHER,))).text == "ok"


def test_consecutive_messages_and_empty_answers_are_accepted(vendor: Vendor):
    with vendor.wire() as wire:
        empty = Message(role="assistant")
        answer = complete(vendor.provider(wire), vendor.request("one", empty, "two", "three"))

    assert answer.text == "ok"


def test_a_history_that_begins_with_the_model_is_accepted(vendor: Vendor):
    with vendor.wire() as wire:
        message = Message(role="assistant", text="As I said.")

        assert complete(vendor.provider(wire), vendor.request(message, "go on")).text == "ok"


def test_calls_made_by_another_provider_are_accepted(vendor: Vendor):
    foreign = ToolCall(
        call_id="demo-call-with-an-id-that-is-far-too-long-for-some-vendors",
        name="weather",
        arguments={"city": "Bern"},
        provider_state="not base64 at all!",
    )
    message = Message(role="assistant", calls=(foreign,))
    with vendor.wire() as wire:
        history = vendor.request("hi", message, results(foreign), tools=(WEATHER,))

        assert complete(vendor.provider(wire), history).text == "ok"


def test_tool_names_that_vendors_refuse_are_translated_both_ways(vendor: Vendor):
    search = tool("mcp:git hub:search/issues", "query")
    with vendor.wire() as wire:
        provider = vendor.provider(wire)
        complete(provider, vendor.request("hi", tools=(search,)))
        sent = wire.requests[0].body["tools"][0]
        declared = sent.get("functionDeclarations") or [sent.get("function") or sent]
        name = declared[0]["name"]
        wire.say(Answer(calls=(Call(name=name, id="c1", signature=b"s"),)))
        answer = complete(provider, vendor.request("hi", tools=(search,)))
        again = vendor.request("hi", answer.as_message(), results(*answer.calls), tools=(search,))

        assert answer.calls[0].name == "mcp:git hub:search/issues"
        assert complete(provider, again).text == "ok"


def test_a_tool_with_a_bad_schema_is_refused_by_the_vendor(vendor: Vendor):
    broken = ToolSpec(name="f", description="", json_schema={"type": "object", "required": "x"})
    with vendor.wire() as wire:
        provider = vendor.provider(wire)
        with pytest.raises(ProviderRejected, match="Invalid schema"):
            complete(provider, vendor.request("hi", tools=(broken,)))


@pytest.mark.parametrize("failure", [{"cut_after": 2}, {"end_after": 2}])
def test_a_truncated_answer_is_never_treated_as_complete(vendor: Vendor, failure):
    with vendor.wire([Answer(text=("half ", "of ", "it"), **failure)]) as wire:
        deltas = vendor.provider(wire).stream(vendor.request("hi"))

        assert next(deltas) == TextDelta(text="half ")
        with pytest.raises(ProviderUnavailable):
            list(deltas)


def test_a_truncated_call_is_not_delivered(vendor: Vendor):
    call = Call(name="weather", arguments={"city": "a rather long name of a city"})
    # Gemini sends a call in one piece, the others in several.
    pieces = 0 if vendor.name == "gemini" else 3
    with vendor.wire([Answer(calls=(call,), end_after=pieces)]) as wire:
        answer: list[Delta] = []
        with pytest.raises(ProviderUnavailable):
            answer.extend(vendor.provider(wire).stream(vendor.request("hi", tools=(WEATHER,))))

    assert not any(isinstance(delta, ToolCall) for delta in answer)


def test_closing_the_iterator_ends_the_request_at_the_vendor(vendor: Vendor):
    endless = Answer(text=("word ",) * 10_000, delay=0.01)
    with vendor.wire([endless]) as wire:
        deltas = cast(
            Generator[Delta, None, None], vendor.provider(wire).stream(vendor.request("hi"))
        )
        next(deltas)
        deltas.close()

        assert wire.requests[0].abandoned.wait(5)
        assert not wire.requests[0].answered.is_set()


def test_silence_longer_than_the_timeout_means_unavailable(vendor: Vendor):
    with vendor.wire([Answer(text=("late",), delay=30)]) as wire:
        provider = vendor.provider(wire, timeout=0.2)

        with pytest.raises(ProviderUnavailable):
            complete(provider, vendor.request("hi"))


def test_an_answer_may_take_longer_than_the_timeout_while_it_streams(vendor: Vendor):
    with vendor.wire([Answer(text=("word ",) * 12, delay=0.1)]) as wire:
        assert len(complete(vendor.provider(wire, timeout=0.6), vendor.request("hi")).pieces) == 12


def test_consecutive_requests_share_one_connection(vendor: Vendor):
    with vendor.wire() as wire:
        provider = vendor.provider(wire)
        for _ in range(5):
            complete(provider, vendor.request("hi"))

    assert wire.opened == 1


def test_an_answer_may_contain_characters_that_look_like_line_ends(vendor: Vendor):
    text = "one\u2028two\x85three\r\nfour\x0b"
    with vendor.wire([Answer(text=(text,))]) as wire:
        assert complete(vendor.provider(wire), vendor.request("hi")).text == text


def test_many_threads_share_one_provider(vendor: Vendor):
    with vendor.wire(otherwise=Answer(text=("a ", "b"), delay=0.05)) as wire:
        provider = vendor.provider(wire)
        with ThreadPoolExecutor(max_workers=40) as pool:
            texts = list(
                pool.map(lambda _: complete(provider, vendor.request("hi")).text, range(80))
            )

    assert texts == ["a b"] * 80


def test_an_answer_that_reached_its_token_limit_is_marked(vendor: Vendor):
    finish = LIMITS[vendor.name]
    with vendor.wire([Answer(text=("And then",), finish=finish), Answer(text=("Done",))]) as wire:
        cut, whole = (list(vendor.provider(wire).stream(vendor.request("hi"))) for _ in range(2))

    assert Truncated() in cut
    assert Truncated() not in whole
