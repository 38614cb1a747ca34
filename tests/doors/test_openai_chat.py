"""Chat completions, by the official SDK."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import openai as sdk
import pytest
from openai import OpenAI

from tests.doors.conftest import AGENT, Model
from tests.stack.client import Client
from tests.stack.running import wait_for
from tests.wire.answers import JSON, Answer, Call, Refuse, Reply

HELLO: list[Any] = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "getWeather",
        "description": "Tells the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def texts(body: JSON) -> list[tuple[str, str]]:
    """Return the roles and texts that reached the model, without the instructions."""
    return [(m["role"], m.get("content")) for m in body["messages"] if m["role"] != "system"]


def instructions(body: JSON) -> str:
    return str(body["messages"][0]["content"])


def test_agents_are_listed_as_models(openai: OpenAI, client: Client):
    models = {model.id: model for model in openai.models.list()}

    assert models[AGENT].owned_by == "switchyard"
    assert openai.models.retrieve(AGENT).id == AGENT
    with pytest.raises(sdk.NotFoundError):
        openai.models.retrieve("Nobody")


def test_an_agent_answers_as_a_model(openai: OpenAI):
    answer = openai.chat.completions.create(model=AGENT, messages=HELLO)

    assert answer.choices[0].message.content == "Hello there."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == 11
    assert answer.usage.completion_tokens == 7


def test_an_answer_is_streamed(openai: OpenAI, model: Model):
    model.answer = lambda body: Answer(text=("Hel", "lo ", "there."), delay=0.3)
    chunks = list(
        openai.chat.completions.create(
            model=AGENT, messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    )

    pieces = [
        c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content
    ]
    assert "".join(pieces) == "Hello there."
    assert len(pieces) > 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens == 18


def test_each_request_brings_its_whole_conversation(openai: OpenAI, model: Model):
    openai.chat.completions.create(
        model=AGENT,
        messages=[
            {"role": "system", "content": "Answer in French."},
            {"role": "user", "content": "One"},
            {"role": "assistant", "content": "Un"},
            {"role": "user", "content": [{"type": "text", "text": "Two"}]},
        ],
        temperature=0.3,
        max_completion_tokens=99,
    )
    [body] = model.requests

    assert [(role, said.partition("\n")[0]) for role, said in texts(body)][:2] == [
        ("user", "One"),
        ("assistant", "Un"),
    ]
    assert "Two" in texts(body)[-1][1]
    assert "Answer in French." in instructions(body)
    assert body["temperature"] == 0.3
    assert body["max_tokens"] == 99


def test_a_named_session_goes_on(openai: OpenAI, model: Model, client: Client):
    for text in ("One", "Two"):
        answer = openai.chat.completions.create(
            model=AGENT,
            messages=[{"role": "user", "content": text}],
            extra_headers={"X-Session-Key": "kept"},
        )
    said = [said for role, said in texts(model.requests[-1]) if role == "user"]
    session = client.call(f"sessions/{answer.session_id}/")  # type: ignore[attr-defined]

    assert [one.partition("\n")[0] for one in said] == ["One", "Two"]
    assert session["session_key"] == "kept"


@pytest.mark.parametrize("streams", [False, True])
def test_the_client_runs_its_own_tools(openai: OpenAI, model: Model, streams: bool):
    def answer(body: JSON) -> Reply:
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if results:
            return Answer(text=(f"It is {results[-1]}.",))
        return Answer(text=("Let me see.",), calls=(Call(name="getWeather", arguments=OSLO),))

    OSLO = {"city": "Oslo"}
    model.answer = answer
    asked: list[Any] = [{"role": "user", "content": "How is the weather in Oslo?"}]
    request: Any = {"model": AGENT, "tools": [WEATHER]}
    if streams:
        with openai.chat.completions.stream(messages=asked, **request) as stream:
            first = stream.get_final_completion().choices[0]
    else:
        first = openai.chat.completions.create(messages=asked, **request).choices[0]
    [call] = first.message.tool_calls

    assert first.finish_reason == "tool_calls"
    assert first.message.content == "Let me see."
    assert (call.function.name, json.loads(call.function.arguments)) == ("getWeather", OSLO)

    said: Any = first.message.model_dump(include={"role", "content", "tool_calls"})
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "cold"}
    second = openai.chat.completions.create(messages=[*asked, said, result], **request)

    assert second.choices[0].message.content == "It is cold."
    # The waiting session took the result: nothing was sent to a new one.
    assert len(model.requests) == 2

    third = openai.chat.completions.create(messages=[*asked, said, result], **request)
    assert third.choices[0].message.content == "It is cold."


def test_a_call_without_its_result_is_refused(openai: OpenAI, model: Model):
    calls = (Call(name="getWeather", arguments={"city": c}) for c in ("Oslo", "Rome"))
    model.answer = lambda body: Answer(calls=tuple(calls))
    asked: list[Any] = [{"role": "user", "content": "Compare."}]
    first = openai.chat.completions.create(model=AGENT, messages=asked, tools=[WEATHER]).choices[0]
    said: Any = first.message.model_dump(include={"role", "content", "tool_calls"})
    [one, two] = first.message.tool_calls
    result: Any = {"role": "tool", "tool_call_id": one.id, "content": "cold"}

    with pytest.raises(sdk.BadRequestError, match=two.id):
        openai.chat.completions.create(
            model=AGENT, messages=[*asked, said, result], tools=[WEATHER]
        )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": "Nobody"}, sdk.NotFoundError, "no agent 'Nobody'"),
        ({"messages": []}, sdk.BadRequestError, "messages"),
        ({"n": 2}, sdk.BadRequestError, "n"),
        ({"tool_choice": "required"}, sdk.BadRequestError, "tool_choice"),
        (
            {"messages": [{"role": "assistant", "content": "x"}]},
            sdk.BadRequestError,
            "last message",
        ),
    ],
)
def test_what_an_agent_cannot_do_is_refused(openai: OpenAI, change: Any, error: Any, message: str):
    request: Any = {"model": AGENT, "messages": HELLO, **change}
    with pytest.raises(error, match=message):
        openai.chat.completions.create(**request)


def test_a_wrong_key_is_refused_in_the_shape_of_openai(openai: OpenAI):
    with pytest.raises(sdk.AuthenticationError) as raised:
        openai.with_options(api_key="wrong").chat.completions.create(model=AGENT, messages=HELLO)

    assert raised.value.type == "authentication_error"


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_that_fails_is_an_error_of_the_request(openai: OpenAI, model: Model, streams: bool):
    model.answer = lambda body: Refuse(status=400, message="no such thing")
    with pytest.raises(sdk.APIError, match="no such thing"):
        list(openai.chat.completions.create(model=AGENT, messages=HELLO, stream=streams))


def test_a_pinned_version_answers(openai: OpenAI, model: Model, client: Client):
    agent = next(a for a in client.rows("agents/") if a["name"] == AGENT)
    client.call(f"agents/{agent['id']}/", {"system_prompt": "Help twice."}, method="PATCH")
    openai.chat.completions.create(model=f"{AGENT}@1", messages=HELLO)
    openai.chat.completions.create(model=agent["id"], messages=HELLO)

    assert "Help twice." not in instructions(model.requests[0])
    assert "Help twice." in instructions(model.requests[1])


@pytest.mark.parametrize("streams", [False, True])
def test_the_run_stops_when_the_client_hangs_up(
    openai: OpenAI, model: Model, client: Client, streams: bool
):
    gate = Event()
    model.answer = lambda body: Answer(text=("Slow ", "work."), hold=gate)
    request: Any = {"model": AGENT, "messages": HELLO}
    if streams:
        stream = openai.chat.completions.create(**request, stream=True)
        next(chunk for chunk in stream if chunk.choices[0].delta.content)
        stream.close()
    else:
        with pytest.raises(sdk.APITimeoutError):
            openai.with_options(timeout=2).chat.completions.create(**request)
    newest = client.rows("runs/")[0]

    ended = wait_for(
        lambda: client.call(f"runs/{newest['id']}/")["status"] not in {"queued", "running"},
        "a stop",
    )
    assert ended
    assert client.call(f"runs/{newest['id']}/")["status"] == "cancelled"
    gate.set()
