"""Tests of custom tools: the call goes out as an event, and one answer or a timeout ends it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.providers.base import ToolCall
from core.exceptions import InvalidFields, NotFound
from sessions_app.accept import accept_event
from sessions_app.exceptions import NothingToAnswer
from sessions_app.lanes import recovery
from sessions_app.live.frames import event_frame
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.access import principal_of_user
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, say
from tools_app.models import CustomTool
from tools_app.workspace_tools import create_custom_tool

E = SessionEvent.Type
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture
def order_tool(workspace) -> CustomTool:
    fields = {
        "name": "find_order",
        "description": "Find an order.",
        "input_schema": SCHEMA,
        "permission": "always_allow",
        "timeout_seconds": 60,
    }
    return create_custom_tool(workspace_id=workspace.pk, fields=fields)


pytestmark = pytest.mark.usefixtures("order_tool")


def find(*numbers: Any) -> list[ToolCall]:
    return [
        ToolCall(call_id=f"c{nth}", name="find_order", arguments={"id": number})
        for nth, number in enumerate(numbers)
    ]


def ids(session: Session) -> list[str]:
    found = ToolExecution.objects.filter(session=session).order_by("id")
    return list(found.values_list("tool_use_id", flat=True))


def answer(session, principal, tool_use_id: str, output: Any = "found", is_error: bool = False):
    payload = {"tool_use_id": tool_use_id, "output": output, "is_error": is_error}
    return accept_event(principal, session.pk, type=E.USER_CUSTOM_TOOL_RESULT, payload=payload)


def results(provider) -> list[str]:
    return [result.output for result in provider.requests[-1].messages[-1].results]


def test_a_call_goes_out_as_an_event_and_holds_no_worker(session, principal, script):
    script(find(7), WORDS)
    say(session, principal)

    serve(session.pk)

    session.refresh_from_db()
    use = newest(session, E.AGENT_CUSTOM_TOOL_USE).payload
    assert (use["name"], use["input"], use["ownership"]) == ("find_order", {"id": 7}, "custom")
    assert use["decision"] == "allow"
    assert session.status == "requires_action"
    assert newest(session, E.STATUS_IDLE).payload["blocking"] == [use["tool_use_id"]]
    waiting = ToolExecution.objects.get()
    assert (waiting.state, waiting.attempts) == ("running", 1)
    assert Run.objects.get().status == "completed"


def test_the_answer_of_the_client_is_shown_to_the_model(session, principal, script):
    provider = script(find(7), WORDS)
    say(session, principal)
    serve(session.pk)

    answer(session, principal, ids(session)[0], {"total": 12})
    serve(session.pk)

    assert results(provider) == ['{"total":12}']
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."
    assert ToolExecution.objects.get().output == {"total": 12}
    taken = newest(session, E.USER_CUSTOM_TOOL_RESULT)
    assert taken.processed_at
    assert newest(session, E.AGENT_TOOL_RESULT).payload["duration_ms"] >= 0
    assert event_frame(taken)["tool_name"] == "find_order"


def test_an_answer_that_the_log_cannot_hold_is_refused_and_the_call_stays_open(
    session, principal, script
):
    script(find(7), WORDS)
    say(session, principal)
    serve(session.pk)
    deep: list = []
    for _ in range(200):
        deep = [deep]

    with pytest.raises(InvalidFields, match="nested too deeply"):
        answer(session, principal, ids(session)[0], deep)
    answer(session, principal, ids(session)[0], {"a\x00": "\ud83d"})
    serve(session.pk)

    assert ToolExecution.objects.get().output == {"a\ufffd": "\ufffd"}
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."


def test_several_calls_are_open_at_once_and_answered_in_any_order(session, principal, script):
    provider = script(find(1, 2, 3), WORDS)
    say(session, principal)
    serve(session.pk)
    first, second, third = ids(session)

    answer(session, principal, third, "three")
    answer(session, principal, first, "one")
    assert newest(session, E.STATUS_IDLE).payload["blocking"] == [second]
    answer(session, principal, second, "no such order", is_error=True)
    serve(session.pk)

    assert results(provider) == ["one", "no such order", "three"]
    states = ToolExecution.objects.order_by("id").values_list("state", flat=True)
    assert list(states) == ["completed", "error", "completed"]


def test_other_calls_of_the_same_answer_run_while_a_custom_call_is_open(session, principal, script):
    time_call = ToolCall(call_id="t", name="current_time", arguments={})
    script([*find(1), time_call], WORDS)
    say(session, principal)

    serve(session.pk)

    states = dict(ToolExecution.objects.values_list("name", "state"))
    assert states == {"find_order": "running", "current_time": "completed"}


def test_a_call_with_invalid_arguments_never_goes_out(session, principal, script):
    provider = script(find("seven"), WORDS)
    say(session, principal)

    serve(session.pk)

    assert "id: 'seven' is not of type 'integer'" in results(provider)[0]
    assert ToolExecution.objects.get().state == "error"


def test_a_second_a_late_and_a_foreign_answer_are_refused(
    session, principal, script, stranger, foreign_workspace
):
    script(find(1, 2), WORDS)
    say(session, principal)
    serve(session.pk)
    first, second = ids(session)
    answer(session, principal, first)

    with pytest.raises(NothingToAnswer, match="is completed and waits for no answer"):
        answer(session, principal, first)
    with pytest.raises(NotFound, match="has no call"):
        answer(session, principal, "tu_of_nobody")
    with pytest.raises(NotFound):
        answer(session, principal_of_user(stranger, foreign_workspace.pk), second)
    other, _ = get_or_create_session(agent=session.agent)
    with pytest.raises(NotFound, match="has no call"):
        answer(other, principal, second)

    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})
    with pytest.raises(NothingToAnswer, match="is cancelled"):
        answer(session, principal, second)


def test_a_custom_tool_that_asks_goes_out_only_after_it_was_allowed(
    session, principal, script, order_tool
):
    CustomTool.objects.update(permission="always_ask")
    provider = script(find(7), WORDS)
    say(session, principal)
    serve(session.pk)
    (call_id,) = ids(session)
    with pytest.raises(NothingToAnswer, match="is awaiting_approval"):
        answer(session, principal, call_id)

    confirmation = {"tool_use_id": call_id, "decision": "allow"}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=confirmation)
    serve(session.pk)

    assert ToolExecution.objects.get().state == "running"
    answer(session, principal, call_id)
    serve(session.pk)
    assert results(provider) == ["found"]


def make_old(seconds: int) -> None:
    ToolExecution.objects.update(started_at=timezone.now() - timedelta(seconds=seconds))


def test_an_unanswered_call_times_out(session, principal, script):
    provider = script(find(7), WORDS)
    say(session, principal)
    serve(session.pk)
    make_old(50)
    assert recovery.recover_lanes().unanswered == []

    make_old(70)
    assert recovery.recover_lanes().unanswered == [session.pk]
    serve(session.pk)

    assert recovery.recover_lanes().unanswered == []
    assert "did not answer in time" in results(provider)[0]
    with pytest.raises(NothingToAnswer, match="is error and waits for no answer"):
        answer(session, principal, ids(session)[0])


def test_open_calls_of_a_deleted_tool_can_still_be_answered(session, principal, script, order_tool):
    provider = script(find(7), WORDS)
    say(session, principal)
    serve(session.pk)
    order_tool.delete()
    make_old(200)
    assert recovery.recover_lanes().unanswered == []

    answer(session, principal, ids(session)[0])
    serve(session.pk)

    assert results(provider) == ["found"]
    assert "find_order" not in {spec.name for spec in provider.requests[-1].tools}
