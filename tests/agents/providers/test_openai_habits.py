"""Tests with OpenAI-compatible servers that deviate from OpenAI."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agents.exceptions import ProviderRejected, ProviderUnavailable
from agents.providers.registry import build_provider
from tests.agents.providers.talk import OPENAI_MODEL, WEATHER, CompleteAnswer, complete, request

Server = Callable[..., CompleteAnswer]


@pytest.fixture
def server(httpserver) -> Server:
    """Return a function that streams lines from a server and returns the provider's answer."""

    def ask(*bodies: dict[str, Any] | bytes) -> CompleteAnswer:
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in bodies]
        raw = b"".join(b"data: " + line + b"\n\n" for line in [*lines, b"[DONE]"])
        httpserver.expect_request("/v1/chat/completions").respond_with_data(
            raw, content_type="text/event-stream"
        )
        address = httpserver.url_for("/v1")
        provider = build_provider("openai", api_key="k" * 20, base_url=address, timeout=5)
        return complete(provider, request("hi", model=OPENAI_MODEL, tools=(WEATHER,)))

    return ask


def piece(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(**fields: Any) -> dict[str, Any]:
    """Return a delta of a call: the function's fields and the call's."""
    own = {name: fields.pop(name) for name in ("index", "id") if name in fields}
    return piece({"tool_calls": [{**own, "function": fields}]})


TEXT, STOP = piece({"content": "a"}), piece({}, "stop")


@pytest.mark.parametrize(
    "bodies",
    [
        [TEXT, piece(None, "stop")],
        [TEXT, {"choices": [{"index": 0, "finish_reason": "stop"}]}],
        [{"choices": None}, TEXT, STOP],
        [b"null", TEXT, b"[]", STOP],
        [b"", TEXT, STOP],
        [piece({"content": [{"type": "text", "text": "a"}]}), STOP],
        [piece({"content": [{"type": "thinking", "thinking": []}]}), TEXT, STOP],
    ],
    ids=["null delta", "no delta", "null choices", "not an object", "no data", "parts", "thoughts"],
)
def test_every_deviation_is_tolerated(server, bodies):
    assert server(*bodies).text == "a"


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_an_empty_token_count_is_replaced_by_an_estimate(server, usage):
    """Without an estimate the answer would be free and the context never full."""
    answer = server(TEXT, piece({}, "stop", usage=usage))

    assert answer.usage
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0


@pytest.mark.parametrize(
    "pieces",
    [
        [call(name="weather", arguments='{"city":'), call(arguments='"Bonn"}')],
        [call(index=0, name="weather", arguments='{"city":'), call(index=0, arguments='"Bonn"}')],
        [call(name="weather", arguments={"city": "Bonn"})],
    ],
    ids=["neither id nor index", "no id", "an object"],
)
def test_the_pieces_of_a_call_are_joined(server, pieces):
    (answer,) = server(*pieces, piece({}, "tool_calls")).calls

    assert (answer.name, answer.arguments) == ("weather", {"city": "Bonn"})
    assert answer.call_id


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_calls_without_ids_are_separated_by_their_names(server, index):
    pieces = [
        call(**index, name="weather", arguments=f'{{"city": "{city}"}}') for city in ("Bonn", "Ulm")
    ]
    answer = server(*pieces, piece({}, "tool_calls")).calls

    assert [one.arguments for one in answer] == [{"city": "Bonn"}, {"city": "Ulm"}]


def test_thinking_that_uses_up_the_answer_is_reported_and_not_retried(server):
    with pytest.raises(ProviderRejected, match="token limit") as caught:
        server(piece({"reasoning_content": "well …"}), piece({}, "length"))
    assert not isinstance(caught.value, ProviderUnavailable)
