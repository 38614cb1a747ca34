"""Tests of OpenAI's chat completions: deltas of calls, and servers that deviate."""

from __future__ import annotations

from typing import Any

import pytest

from agents.exceptions import ProviderRejected, ProviderUnavailable
from agents.providers.answer_checks import parse_arguments
from agents.providers.base import RAW, Message, Provider
from agents.providers.openai import CallAssembly
from agents.providers.registry import build_provider
from tests.agents.providers.talk import OPENAI_MODEL, WEATHER, complete, request, results
from tests.wire.answers import Answer, Call, Refuse
from tests.wire.openai import OpenAIWire


def provider_for(wire: OpenAIWire) -> Provider:
    return build_provider("openai", api_key=wire.key, base_url=wire.url, timeout=10)


def ask(*messages: Message | str, **extra: Any):
    return request(*messages, model=OPENAI_MODEL, tools=(WEATHER,), **extra)


@pytest.mark.parametrize("raw", ['{"city": "Be', "not json", '["a", "list"]', '"text"'])
def test_arguments_that_are_not_an_object_are_kept_raw(raw: str):
    call = Call(name="weather", id="c1", raw_arguments=raw)
    with OpenAIWire([Answer(calls=(call,)), Answer(text=("sorry",))]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        tool_result = results(*first.calls, output="Invalid arguments.", is_error=True)
        second = complete(provider, ask("go", first.as_message(), tool_result))

    assert first.calls[0].arguments == {RAW: raw}
    assert second.text == "sorry"


@pytest.mark.parametrize("raw", ["", "  ", "{}"])
def test_missing_arguments_become_an_empty_object(raw: str):
    assert parse_arguments(raw) == {}


def test_a_failed_result_is_marked_as_an_error():
    with OpenAIWire([Answer(calls=(Call(name="weather", id="c1"),))]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        complete(
            provider,
            ask("go", first.as_message(), results(*first.calls, output="no", is_error=True)),
        )

    assert wire.requests[1].body["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "Error: no",
    }


@pytest.mark.parametrize("indexes", [(0, 0), (None, None), (0, 1), (3, 7)])
def test_calls_are_separated_for_every_numbering(indexes: tuple[int | None, ...]):
    calls = CallAssembly()
    for index, call_id in zip(indexes, ("a", "b"), strict=True):
        function = {"name": "weather", "arguments": f'{{"city": "{call_id}"}}'}
        calls.add([{"index": index, "id": call_id, "function": function}])

    assert [(call.call_id, call.arguments) for call in calls.finish({})] == [
        ("a", {"city": "a"}),
        ("b", {"city": "b"}),
    ]


def test_no_model_of_the_sdk_is_built_for_a_chunk(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a model was built")

    with OpenAIWire() as wire:
        provider = provider_for(wire)
        assert complete(provider, ask("hi")).text == "ok"
        monkeypatch.setattr("openai.BaseModel.__new__", refuse)
        assert complete(provider, ask("hi")).text == "ok"


@pytest.mark.parametrize("field", ["stream_options", "temperature"])
def test_a_field_that_the_server_refuses_is_left_out_and_not_sent_again(field: str):
    with OpenAIWire(refuses=frozenset({field})) as wire:
        provider = provider_for(wire)
        for _ in range(2):
            assert complete(provider, ask("hi", temperature=0.3)).text == "ok"

    assert [field in received.body for received in wire.requests] == [True, False, False]


def test_a_model_that_refuses_max_tokens_gets_the_newer_field():
    with OpenAIWire(refuses=frozenset({"max_tokens"})) as wire:
        complete(provider_for(wire), ask("hi", max_tokens=50))

    assert wire.requests[-1].body["max_completion_tokens"] == 50
    assert "max_tokens" not in wire.requests[-1].body


def test_a_refused_value_is_reported_and_not_dropped():
    with OpenAIWire() as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderRejected, match="temperature"):
            complete(provider, ask("hi", temperature=9.0))

    assert len(wire.requests) == 1


def test_tokens_are_estimated_when_the_server_counts_none():
    with OpenAIWire([Answer(text=("word " * 40,))], counts_tokens=False) as wire:
        usage = complete(provider_for(wire), ask("hi " * 400)).usage

    assert usage is not None
    assert usage.input_tokens > 300
    assert usage.output_tokens == 50


def test_usage_is_sent_once_and_last():
    with OpenAIWire([Answer(text=("a", "b"))]) as wire:
        kinds = [type(delta).__name__ for delta in provider_for(wire).stream(ask("hi"))]

    assert kinds == ["TextDelta", "TextDelta", "Usage"]


def test_an_answer_is_complete_when_the_connection_breaks_after_the_last_piece():
    with OpenAIWire([Answer(text=("whole",), cut_at_end=True)]) as wire:
        assert complete(provider_for(wire), ask("hi")).text == "whole"


def test_a_filtered_answer_without_content_is_refused():
    with OpenAIWire([Answer(finish="content_filter")]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderRejected, match="content filter"):
            complete(provider, ask("hi"))


def test_an_answer_cut_at_the_token_limit_is_a_normal_end():
    with OpenAIWire([Answer(text=("partly",), finish="length")]) as wire:
        assert complete(provider_for(wire), ask("hi")).text == "partly"


def test_a_compatible_server_needs_no_key():
    with OpenAIWire(key="none") as wire:
        provider = build_provider("openai", api_key=None, base_url=wire.url, timeout=10)

        assert complete(provider, ask("hi")).text == "ok"


def test_the_adapter_does_not_retry_on_its_own():
    with OpenAIWire([Refuse(status=503)]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderUnavailable):
            complete(provider, ask("hi"))

    assert len(wire.requests) == 1


def test_effort_is_left_out_for_a_server_that_does_not_know_it():
    with OpenAIWire(refuses=frozenset({"reasoning_effort"})) as wire:
        provider = build_provider("openai", api_key=wire.key, base_url=wire.url, timeout=10)
        asked = request("hi", model=OPENAI_MODEL, effort="off")
        assert complete(provider, asked).text == "ok"
        complete(provider, asked)

    sent = [received.body.get("reasoning_effort") for received in wire.requests]
    assert sent == ["none", None, None]
