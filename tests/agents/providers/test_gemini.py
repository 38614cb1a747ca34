"""Tests of what only Gemini has: signatures, finish reasons, blocked prompts."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from agents.exceptions import ProviderRejected, ProviderUnavailable
from agents.providers.base import Message, Provider
from agents.providers.registry import build_provider
from tests.agents.providers.talk import CLOCK, GEMINI_MODEL, WEATHER, complete, request, results
from tests.wire.answers import Answer, Call
from tests.wire.gemini import GeminiWire
from tests.wire.gemini_rules import SKIP

SIGNATURE = b"\x00\xffopaque bytes"


def provider_for(wire: GeminiWire) -> Provider:
    return build_provider("gemini", api_key=wire.key, base_url=wire.url, timeout=10)


def ask(*messages: Message | str):
    return request(*messages, model=GEMINI_MODEL, tools=(WEATHER, CLOCK))


def test_signatures_are_sent_back_with_their_calls_over_two_turns():
    first_call = Call(name="weather", arguments={"city": "Bern"}, id="c1", signature=SIGNATURE)
    second_call = Call(name="clock", arguments={"zone": "CET"}, id="c2", signature=b"another")
    script = [Answer(calls=(first_call,)), Answer(calls=(second_call,)), Answer(text=("done",))]
    with GeminiWire(script) as wire:
        provider = provider_for(wire)
        one = complete(provider, ask("go"))
        history: list[Message | str] = ["go", one.as_message(), results(*one.calls)]
        two = complete(provider, ask(*history))
        three = complete(provider, ask(*history, two.as_message(), results(*two.calls)))
        sent = wire.requests[-1].body["contents"]

    assert one.calls[0].provider_state == b64encode(SIGNATURE).decode()
    assert three.text == "done"
    assert [part.get("thoughtSignature") for content in sent for part in content["parts"]] == [
        None,
        b64encode(SIGNATURE).decode(),
        None,
        b64encode(b"another").decode(),
        None,
    ]


def test_a_changed_signature_is_refused():
    with GeminiWire([Answer(calls=(Call(name="weather", id="c1", signature=SIGNATURE),))]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        forged = replace(first.calls[0], provider_state=b64encode(b"forged").decode())
        message = Message(role="assistant", calls=(forged,))

        with pytest.raises(ProviderRejected, match="Corrupted thought signature"):
            complete(provider, ask("go", message, results(forged)))


def test_only_calls_without_any_signature_get_the_placeholder():
    calls = (Call(name="weather", id="c1", signature=SIGNATURE), Call(name="clock", id="c2"))
    with GeminiWire([Answer(calls=calls)]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        complete(provider, ask("go", first.as_message(), results(*first.calls)))
        unsigned = tuple(
            replace(call, call_id="x" + call.call_id, provider_state=None) for call in first.calls
        )
        message = Message(role="assistant", calls=unsigned)
        complete(provider, ask("go", message, results(*unsigned)))
        signed_step, foreign_step = (
            [part.get("thoughtSignature") for part in received.body["contents"][1]["parts"]]
            for received in wire.requests[1:]
        )

    assert signed_step == [b64encode(SIGNATURE).decode(), None]
    assert foreign_step == [SKIP, None]


def test_older_models_get_no_placeholder():
    with GeminiWire([Answer(calls=(Call(name="weather", id="c1"),))]) as wire:
        provider = provider_for(wire)
        old = replace(ask("go"), model="gemini-2.5-flash")
        first = complete(provider, old)
        again = replace(
            ask("go", first.as_message(), results(*first.calls)), model="gemini-2.5-flash"
        )
        complete(provider, again)

    assert "thoughtSignature" not in wire.requests[1].body["contents"][1]["parts"][0]


def test_the_signature_of_a_text_is_sent_back_with_it():
    with GeminiWire([Answer(text=("Hel", "lo"), text_signature=SIGNATURE)]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("hi"))
        complete(provider, ask("hi", first.as_message(), "and?"))

    assert first.text_state == b64encode(SIGNATURE).decode()
    assert wire.requests[1].body["contents"][1]["parts"] == [
        {"text": "Hello", "thoughtSignature": b64encode(SIGNATURE).decode()}
    ]


def test_the_results_of_one_step_are_one_content_with_errors_marked():
    calls = (Call(name="weather", id="c1", signature=b"s"), Call(name="clock", id="c2"))
    with GeminiWire([Answer(calls=calls)]) as wire:
        provider = provider_for(wire)
        first = complete(provider, ask("go"))
        tool_results = (
            results(first.calls[0], output="sunny"),
            results(first.calls[1], output="no such zone", is_error=True),
        )
        complete(provider, ask("go", first.as_message(), *tool_results))
        content = wire.requests[1].body["contents"][2]

    assert content["role"] == "user"
    assert [part["functionResponse"] for part in content["parts"]] == [
        {"id": "c1", "name": "weather", "response": {"output": "sunny"}},
        {"id": "c2", "name": "clock", "response": {"error": "no such zone"}},
    ]


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "OTHER"])
def test_an_empty_answer_is_reported_with_its_reason(reason: str):
    with GeminiWire([Answer(finish=reason)]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderRejected, match=rf"returned an empty answer: .*\({reason}\)"):
            complete(provider, ask("hi"))


@pytest.mark.filterwarnings("ignore:TIRED is not a valid FinishReason:UserWarning")
def test_an_unknown_finish_reason_is_reported_too():
    with GeminiWire([Answer(finish="TIRED")]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderRejected, match="TIRED"):
            complete(provider, ask("hi"))


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_malformed_call_can_be_retried(reason: str):
    with GeminiWire([Answer(finish=reason)]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderUnavailable, match=rf"returned an empty answer: .*\({reason}\)"):
            complete(provider, ask("hi"))


def test_reaching_the_token_limit_is_a_normal_end():
    with GeminiWire([Answer(text=("partly",), finish="MAX_TOKENS")]) as wire:
        assert complete(provider_for(wire), ask("hi")).text == "partly"


def test_thinking_that_uses_up_the_answer_is_reported_and_not_retried():
    with GeminiWire([Answer(thoughts="well …", finish="MAX_TOKENS")]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderRejected, match="token limit"):
            complete(provider, ask("hi"))


def test_a_blocked_prompt_is_refused_with_its_reason():
    with GeminiWire([Answer(blocked="PROHIBITED_CONTENT")]) as wire:
        provider = provider_for(wire)
        with pytest.raises(ProviderRejected, match="PROHIBITED_CONTENT"):
            complete(provider, ask("hi"))


def test_instructions_tools_and_limits_reach_the_model():
    asked = request("hi", model=GEMINI_MODEL, tools=(WEATHER,), max_tokens=50, temperature=0.5)
    with GeminiWire() as wire:
        complete(provider_for(wire), asked)
        body = wire.requests[0].body

    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    declared = body["tools"][0]["functionDeclarations"][0]
    assert declared["parameters_json_schema"] == WEATHER.json_schema
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "maxOutputTokens": 50,
        "thinkingConfig": {"include_thoughts": True},
    }


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-3.8-flash", "off", {"include_thoughts": False, "thinking_level": "MINIMAL"}),
        ("gemini-3.8-flash", "high", {"include_thoughts": True, "thinking_level": "HIGH"}),
        ("gemini-3.1-pro-preview", "off", {"include_thoughts": False, "thinking_level": "LOW"}),
        ("gemini-2.5-flash", "off", {"include_thoughts": False, "thinking_budget": 0}),
        ("gemini-2.5-flash", "low", {"include_thoughts": True, "thinking_budget": 1_024}),
    ],
)
def test_effort_becomes_a_level_or_a_budget(model: str, effort, expected):
    with GeminiWire() as wire:
        complete(provider_for(wire), request("hi", model=model, effort=effort))

    assert wire.requests[0].body["generationConfig"]["thinkingConfig"] == expected


def test_the_server_timeout_exceeds_the_read_timeout():
    with GeminiWire() as wire:
        complete(provider_for(wire), ask("hi"))

    assert int(wire.requests[0].headers["x-server-timeout"]) >= 600
