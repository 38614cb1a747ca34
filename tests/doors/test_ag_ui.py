"""The AG-UI door, by AG-UI's own client for Node."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.doors.conftest import AGENT, Model
from tests.doors.node import run_node
from tests.stack.client import Client
from tests.stack.running import Running
from tests.wire.answers import JSON, Answer, Call, Refuse, Reply

TOOLS = [
    {
        "name": "pickColour",
        "description": "Asks the person for a colour.",
        "parameters": {"type": "object", "properties": {"hint": {"type": "string"}}},
    }
]


@pytest.fixture
def talk(client: Client, stack: Running, model: Model) -> Any:
    """Return a function that takes the steps of a conversation in a new thread."""

    def take(*steps: dict[str, Any]) -> Any:
        return run_node(
            "ag-ui",
            {
                "url": f"{stack.base_url}/ag-ui/{AGENT}/",
                "key": client.key,
                "threadId": str(uuid4()),
                "steps": steps,
            },
        )

    return take


def kinds(step: Any) -> list[str]:
    return [event["type"] for event in step["events"]]


def after_a_tool(text: str, call: Call) -> Any:
    """Return a model that calls a tool and then says this."""

    def answer(body: JSON) -> Reply:
        is_result = body["messages"][-1]["role"] == "tool"
        return Answer(text=(text,)) if is_result else Answer(calls=(call,))

    return answer


def test_a_thread_goes_on(talk: Any, model: Model):
    first, second = talk({"say": "One"}, {"say": "Two"})

    assert "error" not in first
    assert kinds(first)[0] == "RUN_STARTED"
    assert kinds(first)[-1] == "RUN_FINISHED"
    assert "TEXT_MESSAGE_CONTENT" in kinds(first)
    assert second["messages"][-1]["content"] == "Hello there."
    users = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "user"]
    assert [text.partition("\n")[0] for text in users] == ["One", "Two"]


def test_the_front_end_runs_its_own_tools(talk: Any, model: Model):
    model.answer = after_a_tool("A fine colour.", Call(name="pickColour", arguments={"hint": "x"}))
    asked, answered = talk({"say": "Paint it", "tools": TOOLS}, {"result": "blue", "tools": TOOLS})

    assert asked["events"][-1]["outcome"]["pendingToolCallIds"]
    assert answered["messages"][-1]["content"] == "A fine colour."
    assert model.requests[-1]["messages"][-1]["content"] == "blue"


@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_an_approval_is_an_interrupt(talk: Any, model: Model, answer: str):
    model.answer = after_a_tool("Over.", Call(name="exec", arguments={"command": "echo hi"}))
    asked, answered = talk({"say": "Say hi in a shell"}, {"answer": answer})
    [interrupt] = asked["events"][-1]["outcome"]["interrupts"]

    assert interrupt["reason"] == "approval"
    assert "echo hi" in interrupt["message"]
    assert answered["messages"][-1]["content"] == "Over."
    outcome = model.requests[-1]["messages"][-1]["content"]
    assert ("refused" in outcome) is (answer == "deny")


def test_the_agents_own_tools_are_shown_with_their_results(talk: Any, model: Model):
    model.answer = after_a_tool("Done.", Call(name="current_time"))
    [step] = talk({"say": "What time is it?"})

    assert [kind for kind in kinds(step) if kind.startswith("TOOL")] == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
    ]


def test_a_model_that_fails_ends_the_run_with_its_error(talk: Any, model: Model):
    model.answer = lambda body: Refuse(status=400, message="no such thing")
    [step] = talk({"say": "Hello"})

    assert kinds(step)[-1] == "RUN_ERROR"
    assert "no such thing" in step["events"][-1]["message"]
