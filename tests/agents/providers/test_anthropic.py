"""Tests of what only Anthropic has: signed thinking, cache marks, budgets, stop reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agents.exceptions import ContextOverflow, ProviderRejected, ProviderUnavailable
from agents.providers.anthropic import AnswerBlocks, messages_of, version_of
from agents.providers.base import Message, Provider, Thinking, ToolCall, Truncated, Usage
from agents.providers.registry import build_provider
from tests.agents.providers.talk import (
    ANTHROPIC_MODEL,
    CLOCK,
    WEATHER,
    CompleteAnswer,
    add_delta,
    complete,
    request,
    results,
)
from tests.wire.answers import Answer, Call, Counts, Refuse
from tests.wire.anthropic import AnthropicWire

OLD = "claude-haiku-4-5"


def provider_for(wire: AnthropicWire) -> Provider:
    return build_provider("anthropic", api_key=wire.key, base_url=wire.url, timeout=10)


def ask(*messages: Message | str, model: str = ANTHROPIC_MODEL, **options: Any):
    return request(*messages, model=model, tools=(WEATHER, CLOCK), **options)


@pytest.mark.parametrize("model", [ANTHROPIC_MODEL, OLD])
def test_signed_thinking_is_sent_back_unchanged_within_and_after_the_calls(model: str):
    script = [
        Answer(thoughts="Ask the tool.", text=("One ", "moment."), calls=(Call(name="weather"),)),
        Answer(redacted="opaque", thoughts="And the time?", calls=(Call(name="clock"),)),
        Answer(text=("done",)),
        Answer(text=("again",)),
    ]
    with AnthropicWire(script) as wire:
        provider = provider_for(wire)
        options: dict[str, Any] = {"model": model, "effort": "medium", "max_tokens": 20_000}
        history: list[Message | str] = ["go"]
        for _ in range(2):
            answer = complete(provider, ask(*history, **options))
            history += [answer.as_message(), results(*answer.calls)]
        last = complete(provider, ask(*history, **options))
        complete(provider, ask(*history, last.as_message(), "thanks", **options))
        first, second = (wire.requests[-1].body["messages"][place]["content"] for place in (1, 3))

    assert last.text == "done"
    assert [block["type"] for block in first] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in second] == ["redacted_thinking", "thinking", "tool_use"]
    assert wire.signatures[second[1]["signature"]] == second[1]["thinking"] == "And the time?"
    assert second[0]["data"] == "opaque"


def test_changed_thinking_is_refused():
    with AnthropicWire([Answer(thoughts="hm", calls=(Call(name="weather"),))]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go", effort="high"))
        first.thoughts = ["hM"]
        with pytest.raises(ProviderRejected, match="Invalid `signature`"):
            complete(provider, ask("go", first.as_message(), results(*first.calls)))


def test_thoughts_that_the_vendor_leaves_out_are_sent_back_by_their_signature():
    answer = CompleteAnswer()
    blocks = AnswerBlocks(names={}, key="")
    for event in (
        {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_stop"},
    ):
        for delta in blocks.read(event):
            add_delta(answer, delta)
    for delta in blocks.state():
        add_delta(answer, delta)

    assert answer.thoughts == []
    sent = messages_of(ask("go", answer.as_message(), "and?"))
    assert sent[1]["content"] == [{"type": "thinking", "thinking": "", "signature": "s"}]


def test_blocks_keep_the_order_in_which_the_model_sent_them():
    def start(**block):
        return {"type": "content_block_start", "content_block": block}

    def delta(**delta):
        return {"type": "content_block_delta", "delta": delta}

    stop = {"type": "content_block_stop"}
    answer, blocks = CompleteAnswer(), AnswerBlocks(names={}, key="")
    for event in (
        start(type="thinking", thinking="", signature=""),
        delta(type="thinking_delta", thinking="One."),
        delta(type="signature_delta", signature="s1"),
        stop,
        start(type="text", text=""),
        delta(type="text_delta", text="First."),
        stop,
        start(type="thinking", thinking="", signature=""),
        delta(type="thinking_delta", thinking="Two."),
        delta(type="signature_delta", signature="s2"),
        stop,
        start(type="tool_use", id="c", name="clock", input={"zone": "CET"}),
        stop,
    ):
        for one in blocks.read(event):
            add_delta(answer, one)
    for one in blocks.state():
        add_delta(answer, one)
    message = replace(answer.as_message(), calls=(replace(answer.calls[0], call_id="tu_1"),))

    sent = messages_of(ask("go", message, results(*message.calls)))[1]["content"]

    assert [block["type"] for block in sent] == ["thinking", "text", "thinking", "tool_use"]
    assert [block.get("thinking") for block in sent] == ["One.", None, "Two.", None]
    assert sent[3]["id"] == "tu_1"
    assert sent[3]["input"] == {"zone": "CET"}

    changed = replace(message, text="First. And more.")
    again = messages_of(ask("go", changed, results(*message.calls)))[1]["content"]
    assert [block["type"] for block in again] == ["thinking", "thinking", "text", "tool_use"]


@pytest.mark.parametrize("state", ["not json", '{"gemini": 1}', "[]", "c2lnbmVk"])
def test_thinking_of_another_vendor_is_left_out(state: str):
    message = Message(
        role="assistant", text="Hi.", thinking=Thinking(text="hm", provider_state=state)
    )

    assert messages_of(ask("go", message, "and?"))[1]["content"] == [
        {"type": "text", "text": "Hi."}
    ]


def test_an_older_model_does_not_begin_to_think_amid_calls():
    unsigned = ToolCall(call_id="c1", name="weather")
    message = Message(role="assistant", calls=(unsigned,))
    with AnthropicWire() as wire:
        asked = ask("go", message, results(unsigned), model=OLD, effort="high", max_tokens=20_000)
        complete(provider_for(wire), asked)
        complete(provider_for(wire), ask("go", model=OLD, effort="high", max_tokens=20_000))

    assert "thinking" not in wire.requests[0].body
    assert wire.requests[1].body["thinking"] == {"type": "enabled", "budget_tokens": 10_000}


@pytest.mark.parametrize(
    ("effort", "expected"),
    [
        (None, (None, None)),
        ("off", ({"type": "disabled"}, None)),
        ("low", ({"type": "adaptive", "display": "summarized"}, {"effort": "low"})),
    ],
)
def test_effort_becomes_the_fields_of_a_new_model(effort, expected):
    with AnthropicWire() as wire:
        complete(provider_for(wire), ask("hi", effort=effort))
        body = wire.requests[0].body

    assert (body.get("thinking"), body.get("output_config")) == expected


def test_a_short_answer_leaves_no_budget_to_think():
    with AnthropicWire() as wire:
        complete(provider_for(wire), ask("hi", model=OLD, effort="high", max_tokens=1_500))

    assert "thinking" not in wire.requests[0].body


def test_a_field_that_a_model_refuses_is_left_out_from_then_on():
    with AnthropicWire() as wire:
        provider = provider_for(wire)
        for _ in range(2):
            assert complete(provider, ask("hi", temperature=0.3)).text == "ok"
        old = ask("hi", model=OLD, temperature=1.8)
        assert complete(provider, old).text == "ok"

    assert ["temperature" in received.body for received in wire.requests] == [
        True, False, False, True,
    ]  # fmt: skip
    assert wire.requests[-1].body["temperature"] == 1.0


def test_versions_are_read_from_names():
    assert version_of("claude-opus-4-6") == (4, 6)
    assert version_of("claude-sonnet-4-20250514") == (4, 0)
    assert version_of("claude-3-5-haiku-latest") == (3, 5)
    assert version_of("claude-sonnet-5") == (5, 0)
    assert version_of("anthropic.claude-opus-4.7") == (4, 7)
    assert version_of("a-new-name") > (5, 0)


def test_the_prefix_that_the_last_request_wrote_is_marked_again():
    with AnthropicWire([Answer(calls=(Call(name="weather", id="c1"),))]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        complete(provider, ask("go", first.as_message(), results(*first.calls)))
        one, two = (received.body for received in wire.requests)

    mark = {"type": "ephemeral"}
    assert one["system"] == two["system"]
    assert one["system"][0]["cache_control"] == mark
    assert one["messages"] == two["messages"][:1]
    assert [m["content"][-1].get("cache_control") for m in two["messages"]] == [mark, None, mark]


def test_without_instructions_the_tools_are_marked():
    with AnthropicWire() as wire:
        complete(provider_for(wire), ask("go", instructions=""))
        body = wire.requests[0].body

    assert "system" not in body
    assert [("cache_control" in tool) for tool in body["tools"]] == [False, True]


def test_cached_tokens_count_as_input_that_was_read_or_written():
    counts = Counts(input_tokens=100, cached_tokens=60, written_tokens=30, output_tokens=8)
    with AnthropicWire([Answer(text=("ok",), counts=counts)]) as wire:
        answer = complete(provider_for(wire), ask("hi"))

    assert answer.usage == Usage(
        input_tokens=100, output_tokens=8, cache_read_tokens=60, cache_write_tokens=30
    )


def test_a_server_that_does_not_count_is_estimated():
    with AnthropicWire([Answer(text=("eight words",), counts=None)]) as wire:
        usage = complete(provider_for(wire), ask("hi")).usage

    assert usage
    assert usage.input_tokens > 10
    assert usage.output_tokens == 3


def test_the_results_of_one_step_are_one_message_with_errors_marked():
    calls = (Call(name="weather", id="c1"), Call(name="clock", id="c2"))
    with AnthropicWire([Answer(calls=calls)]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        told = (
            results(first.calls[0], output=" "),
            results(first.calls[1], output="no such zone", is_error=True),
        )
        complete(provider, ask("go", first.as_message(), *told, "and quickly"))
        content = wire.requests[1].body["messages"][2]["content"]

    assert content[0] == {"type": "tool_result", "tool_use_id": "c1"}
    assert content[1]["is_error"] is True
    assert content[1]["content"] == [{"type": "text", "text": "no such zone"}]
    assert content[2]["text"] == "and quickly"


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("refusal", ProviderRejected),
        ("max_tokens", ProviderRejected),
        ("model_context_window_exceeded", ContextOverflow),
    ],
)
def test_an_empty_answer_is_reported_with_its_reason(finish: str, expected):
    with AnthropicWire([Answer(thoughts="hm", finish=finish, blocked="not this")]) as wire:
        provider = provider_for(wire)
        with pytest.raises(expected) as caught:
            complete(provider, ask("hi"))

    assert type(caught.value) is expected
    if finish == "refusal":
        assert "refused to answer: not this" in caught.value.detail


def test_a_full_window_cuts_the_answer_like_its_limit():
    answer = Answer(text=("And then",), finish="model_context_window_exceeded")
    with AnthropicWire([answer]) as wire:
        assert Truncated() in list(provider_for(wire).stream(ask("hi")))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ProviderUnavailable),
        ("rate_limit_error", ProviderUnavailable),
        ("api_error", ProviderUnavailable),
        ("invalid_request_error", ProviderRejected),
    ],
)
def test_an_error_type_inside_the_stream_is_classified(kind: str, expected):
    answer = Answer(text=("well, ",), error={"type": kind, "message": "it broke"})
    with AnthropicWire([answer]) as wire:
        provider = provider_for(wire)
        with pytest.raises(expected, match="it broke"):
            complete(provider, ask("hi"))


def test_a_prompt_that_is_too_long_is_an_overflow():
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    for reply in (Refuse(status=400, message=said), Refuse(status=413, message="Too large")):
        with AnthropicWire([reply]) as wire:
            provider = provider_for(wire)
            with pytest.raises(ContextOverflow):
                complete(provider, ask("hi"))


def test_the_listed_models_tell_their_windows_and_abilities():
    from agents.providers.registry import list_models

    with AnthropicWire() as wire:
        listed = list_models("anthropic", wire.key, wire.url)

    facts = listed[ANTHROPIC_MODEL]
    assert (facts.window, facts.max_output, facts.tools, facts.images) == (
        1_000_000, 64_000, True, True,
    )  # fmt: skip
