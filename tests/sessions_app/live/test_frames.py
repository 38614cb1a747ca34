"""Tests of frames: one for each type of event, as the public contract describes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from core.ids import uuid7
from sessions_app.live.frames import (
    Frame,
    FrameCache,
    _event_metadata,
    ack_frame,
    delta_frame,
    encode,
    encode_event,
    error_frame,
    event_frame,
)
from sessions_app.live.publisher import Delta
from sessions_app.models import SessionEvent

Type = SessionEvent.Type
SESSION, RUN = uuid7(), uuid7()
AT = datetime(2026, 11, 16, 1, 2, 3, 456, tzinfo=UTC)


def event(type: str, **payload: Any) -> SessionEvent:
    return SessionEvent(
        session_id=SESSION, run_id=RUN, seq=7, type=type, payload=payload, created_at=AT
    )


def shown(type: str, **payload: Any) -> dict[str, Any]:
    """Return the frame without the metadata that every frame has."""
    frame = event_frame(event(type, **payload))
    for name in ("session_id", "run_id", "event_id", "event_type", "created_at"):
        del frame["metadata"][name]
    return frame


@pytest.mark.parametrize("type", Type.values)
def test_every_type_of_event_has_a_frame_with_its_origin(type):
    made = event(type)
    frame = event_frame(made)

    assert frame["type"] in {"lifecycle", "assistant", "tool", "error"}
    assert frame["seq"] == 7
    assert (
        frame["metadata"].items()
        >= {
            "session_id": str(SESSION),
            "run_id": str(RUN),
            "event_id": str(made.pk),
            "event_type": type,
            "created_at": "2026-11-16T01:02:03.000456Z",
        }.items()
    )


def test_an_answer_is_an_assistant_frame():
    usage = {"input_tokens": 1, "output_tokens": 2}
    assert shown(Type.AGENT_MESSAGE, text="Hi", model="demo", usage=usage) == {
        "type": "assistant",
        "content": "Hi",
        "metadata": {"model": "demo", "usage": usage},
        "seq": 7,
    }


@pytest.mark.parametrize("type", [Type.AGENT_TOOL_USE, Type.AGENT_CUSTOM_TOOL_USE])
@pytest.mark.parametrize(
    ("decision", "state"),
    [("allow", "pending"), ("ask", "awaiting_approval"), ("deny", "denied")],
)
def test_a_tool_call_shows_the_state_that_follows_from_its_decision(type, decision, state):
    assert shown(type, tool_use_id="t1", name="read", input={"path": "a"}, decision=decision) == {
        "type": "tool",
        "tool_name": "read",
        "tool_state": state,
        "tool_input": {"path": "a"},
        "metadata": {"tool_use_id": "t1", "decision": decision},
        "seq": 7,
    }


@pytest.mark.parametrize(
    ("state", "visible"),
    [("completed", "completed"), ("requested", "pending"), ("unknown", "unknown")],
)
def test_a_tool_result_shows_its_state(state, visible):
    result = {"tool_use_id": "t1", "name": "read", "state": state, "output": "text", "error": ""}
    assert shown(Type.AGENT_TOOL_RESULT, **result, duration_ms=5) == {
        "type": "tool",
        "tool_name": "read",
        "tool_state": visible,
        "tool_output": "text",
        "metadata": {"tool_use_id": "t1", "duration_ms": 5},
        "seq": 7,
    }


def test_a_failed_tool_shows_its_error():
    frame = shown(Type.AGENT_TOOL_RESULT, name="read", state="error", error="No such file.")

    assert (frame["tool_state"], frame["error"]) == ("error", "No such file.")


def test_confirmations_and_custom_results_are_tool_frames():
    denied = shown(Type.USER_TOOL_CONFIRMATION, tool_use_id="t1", decision="deny", note="no")
    allowed = shown(Type.USER_TOOL_CONFIRMATION, tool_use_id="t1", decision="allow", input={"a": 1})
    done = shown(Type.USER_CUSTOM_TOOL_RESULT, tool_use_id="t1", output=[1], is_error=False)
    failed = shown(Type.USER_CUSTOM_TOOL_RESULT, tool_use_id="t1", output="bad", is_error=True)

    assert (denied["type"], denied["tool_state"]) == ("tool", "denied")
    assert (allowed["tool_state"], allowed["tool_input"]) == ("pending", {"a": 1})
    assert (done["tool_state"], done["tool_output"], "error" in done) == ("completed", [1], False)
    assert (failed["tool_state"], failed["error"]) == ("error", "bad")


def test_an_error_frame_states_code_and_message():
    assert shown(Type.ERROR, code="provider_failed", message="Down.", retryable=True) == {
        "type": "error",
        "phase": "error",
        "error": "Down.",
        "metadata": {"code": "provider_failed", "retryable": True},
        "seq": 7,
    }


def test_the_start_and_end_of_a_run_are_lifecycle_phases():
    started = shown(Type.STATUS_CHANGED, **{"from": "idle", "to": "running", "reason": ""})
    ended = shown(Type.STATUS_IDLE, stop_reason="end_turn", blocking=[])
    other = shown(Type.STATUS_CHANGED, **{"from": "running", "to": "rescheduling", "reason": "x"})

    assert (started["type"], started["phase"]) == ("lifecycle", "start")
    assert (ended["type"], ended["phase"]) == ("lifecycle", "end")
    assert ended["metadata"] == {"stop_reason": "end_turn", "blocking": []}
    assert other["type"] == "lifecycle"
    assert "phase" not in other
    assert other["metadata"]["event"]["payload"]["to"] == "rescheduling"


def test_every_other_event_is_a_lifecycle_frame_that_contains_the_event():
    made = event(Type.USER_MESSAGE, text="Hello")

    assert event_frame(made)["metadata"]["event"] == {
        "id": str(made.pk),
        "session_id": str(SESSION),
        "seq": 7,
        "type": "user.message",
        "payload": {"text": "Hello"},
        "run_id": str(RUN),
        "created_at": "2026-11-16T01:02:03.000456Z",
        "processed_at": None,
        "processed_run_id": None,
    }


def test_a_delta_names_its_future_event_and_its_offset():
    event_id = uuid7()
    frame = delta_frame(
        Delta(session_id=SESSION, event_id=event_id, run_id=None, offset=3, text="🚂")
    )

    assert (frame["type"], frame["content"], frame["seq"]) == ("assistant", "🚂", None)
    assert frame["metadata"].items() >= {"event_id": str(event_id), "offset": 3}.items()
    assert frame["metadata"].keys() >= _event_metadata(event(Type.AGENT_MESSAGE)).keys()


def test_responses_to_the_client_carry_its_id():
    assert ack_frame(id="c1", seq=4) == {"type": "ack", "id": "c1", "seq": 4}
    assert error_frame(code="invalid", error="No.", id="c1")["id"] == "c1"


def test_a_frame_is_encoded_once_until_its_event_is_taken_by_a_run():
    made = event(Type.USER_MESSAGE, text="Hello")
    first = encode_event(made)
    assert encode_event(made) is first

    made.processed_at = AT
    assert json.loads(encode_event(made).text)["metadata"]["event"]["processed_at"]


def test_the_frame_cache_is_bounded_and_keeps_recently_used_frames():
    memory = FrameCache(max_size=300)
    keys = [(uuid7(), True) for _ in range(4)]
    for key in keys[:3]:
        memory.put(key, Frame(text="x" * 100))
    memory.get(keys[0])
    memory.put(keys[3], Frame(text="x" * 100))

    assert [memory.get(key) is not None for key in keys] == [True, False, True, True]


def test_integers_of_any_size_can_be_encoded():
    assert json.loads(encode({"n": 10**40})) == {"n": 10**40}


def test_thinking_is_an_assistant_frame_of_its_own_kind_without_its_signature():
    stored = shown(Type.AGENT_THINKING, text="Hm.", model="m", provider_state="secret")

    assert stored["type"] == "assistant"
    assert stored["content"] == "Hm."
    assert stored["metadata"] == {"kind": "thinking", "model": "m"}
    live = delta_frame(
        Delta(session_id=SESSION, event_id=uuid7(), run_id=RUN, offset=3, text="!", kind="thinking")
    )
    assert live["metadata"]["kind"] == "thinking"
    assert live["metadata"]["event_type"] == "agent.thinking"
    assert encode_event(event(Type.AGENT_THINKING, text="Hm.")).ends_answer
