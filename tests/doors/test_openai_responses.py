"""The Responses API, by the official SDK."""

from __future__ import annotations

import json
import time
from threading import Event
from typing import Any

import openai as sdk
import pytest
from openai import OpenAI

from tests.doors.conftest import AGENT, Model
from tests.doors.node import run_node
from tests.doors.test_openai_chat import texts
from tests.stack.client import Client
from tests.stack.running import Running
from tests.wire.answers import JSON, Answer, Call, Refuse, Reply

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


def said(body: JSON) -> list[str]:
    return [str(text).partition("\n")[0] for _, text in texts(body)]


def test_a_response_is_created_and_found_again(openai: OpenAI):
    made = openai.responses.create(model=AGENT, input="Hello", instructions="Be brief.")
    found = openai.responses.retrieve(made.id)

    assert (made.status, made.output_text) == ("completed", "Hello there.")
    assert made.usage.total_tokens == 18
    assert found.model_dump(exclude={"model"}) == made.model_dump(exclude={"model"})
    assert found.instructions == "Be brief."


def test_a_response_is_streamed(openai: OpenAI, model: Model):
    model.answer = lambda body: Answer(text=("Hel", "lo ", "there."), delay=0.3)
    with openai.responses.stream(model=AGENT, input="Hello") as stream:
        events = list(stream)
        final = stream.get_final_response()

    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds.count("response.output_text.delta") > 1
    assert kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "Hello there."


def test_a_response_goes_on_from_an_earlier_one_and_forks_where_another_followed(
    openai: OpenAI, model: Model
):
    one = openai.responses.create(model=AGENT, input="One")
    two = openai.responses.create(model=AGENT, input="Two", previous_response_id=one.id)
    other = openai.responses.create(model=AGENT, input="Other", previous_response_id=one.id)

    assert [said(body) for body in model.requests] == [
        ["One"],
        ["One", "Hello there.", "Two"],
        ["One", "Hello there.", "Other"],
    ]
    assert one.conversation == two.conversation != other.conversation


def test_a_conversation_is_named_by_its_id_or_by_a_key(openai: OpenAI, model: Model):
    one = openai.responses.create(model=AGENT, input="One", conversation="my-talk")
    assert one.conversation
    openai.responses.create(model=AGENT, input="Two", conversation=one.conversation.id)
    openai.responses.create(model=AGENT, input="Three", conversation="my-talk")

    assert said(model.requests[-1])[::2] == ["One", "Two", "Three"]


@pytest.mark.parametrize("streams", [False, True])
def test_the_client_runs_its_own_tools(openai: OpenAI, model: Model, streams: bool):
    def answer(body: JSON) -> Reply:
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if results:
            return Answer(text=(f"It is {results[-1]}.",))
        return Answer(calls=(Call(name="get_weather", arguments={"city": "Oslo"}),))

    model.answer = answer
    if streams:
        with openai.responses.stream(model=AGENT, input="Oslo?", tools=[WEATHER]) as stream:
            first = stream.get_final_response()
    else:
        first = openai.responses.create(model=AGENT, input="Oslo?", tools=[WEATHER])  # type: ignore[assignment]
    [call] = first.output
    assert call.type == "function_call"
    assert (first.status, json.loads(call.arguments)) == ("completed", {"city": "Oslo"})

    second = openai.responses.create(
        model=AGENT,
        previous_response_id=first.id,
        tools=[WEATHER],
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "cold"}],
    )
    assert second.output_text == "It is cold."
    assert [item.type for item in second.output] == ["message"]
    assert openai.responses.retrieve(second.id).output == second.output


def test_the_agents_own_tools_are_items(openai: OpenAI, model: Model):
    def answer(body: JSON) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Answer(text=("Done.",))
        return Answer(calls=(Call(name="current_time", arguments={}),))

    model.answer = answer
    made = openai.responses.create(model=AGENT, input="What time is it?")
    call = made.output[0]

    assert call.type == "mcp_call"
    assert (call.name, call.server_label, call.error) == ("current_time", "switchyard", None)
    assert call.output
    assert made.output_text == "Done."


@pytest.mark.parametrize("approve", [True, False])
def test_a_call_that_asks_is_approved_by_the_client(openai: OpenAI, model: Model, approve: bool):
    def answer(body: JSON) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Answer(text=("Over.",))
        return Answer(calls=(Call(name="exec", arguments={"command": "echo hi"}),))

    model.answer = answer
    first = openai.responses.create(model=AGENT, input="Say hi in a shell")
    [asked] = first.output
    assert asked.type == "mcp_approval_request"
    assert (asked.name, json.loads(asked.arguments)) == ("exec", {"command": "echo hi"})

    second = openai.responses.create(
        model=AGENT,
        previous_response_id=first.id,
        input=[
            {
                "type": "mcp_approval_response",
                "approval_request_id": asked.id,
                "approve": approve,
                "reason": "not now",
            }
        ],
    )
    outcome = model.requests[-1]["messages"][-1]["content"]
    assert second.output_text == "Over."
    assert ("not now" in outcome) is not approve
    # A refused call does not run.
    ran = ["mcp_call"] if approve else []
    assert [item.type for item in second.output] == [*ran, "message"]


def test_a_response_in_the_background_is_awaited_or_cancelled(openai: OpenAI, model: Model):
    gate = Event()
    model.answer = lambda body: Answer(text=("Slow ", "work."), hold=gate)
    running = openai.responses.create(model=AGENT, input="Work", background=True)
    assert running.status in {"queued", "in_progress"}
    doomed = openai.responses.create(model=AGENT, input="Work", background=True)
    cancelled = openai.responses.cancel(doomed.id)
    assert cancelled.status in {"cancelled", "in_progress"}
    gate.set()

    assert until(lambda: openai.responses.retrieve(running.id).status) == "completed"
    assert until(lambda: openai.responses.retrieve(doomed.id).status) == "cancelled"


def until(look: Any) -> str:
    deadline = time.monotonic() + 60
    while (status := look()) in {"queued", "in_progress"} and time.monotonic() < deadline:
        time.sleep(0.2)
    return str(status)


def test_a_stored_response_can_be_followed(openai: OpenAI):
    made = openai.responses.create(model=AGENT, input="Hello")
    events = list(openai.responses.retrieve(made.id, stream=True))

    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "Hello there."


def test_a_model_that_fails_makes_a_failed_response(openai: OpenAI, model: Model):
    model.answer = lambda body: Refuse(status=400, message="no such thing")
    made = openai.responses.create(model=AGENT, input="Hello")

    assert (made.status, made.error.code) == ("failed", "provider_rejected")
    assert "no such thing" in made.error.message


def test_an_unknown_response_is_not_found(openai: OpenAI):
    for id in ("resp_0", "resp_00000000000000000000000000000000"):
        with pytest.raises(sdk.NotFoundError):
            openai.responses.retrieve(id)


def test_the_client_for_node_is_understood(openai: OpenAI, client: Client, stack: Running):
    said = run_node("openai", {"url": f"{stack.base_url}/v1", "key": client.key, "model": AGENT})

    assert said["whole"] == said["streamed"] == said["response"] == "Hello there."
    assert said["kinds"][-1] == "response.completed"
