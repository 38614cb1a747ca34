"""Tests of reading a session's log by seq and of sending `user.*` events over REST."""

from __future__ import annotations

from typing import Any

import pytest

from agents.providers.base import TextDelta
from sessions_app.lanes import run_queue
from sessions_app.live.frames import author_name, event_body
from sessions_app.log.payloads import MAX_TEXT_LENGTH
from sessions_app.models import Run, SessionEvent, ToolExecution
from tenants.models import IdempotentAnswer
from tests.conftest import key_client
from tests.sessions_app.api.test_sessions import at, post
from tests.sessions_app.conftest import OWNER, serve, types
from tests.sessions_app.parking import park


def send(api, session, text="hello", **more):
    return post(
        api, at(session, "events/"), {"type": "user.message", "payload": {"text": text}, **more}
    )


def assert_problem(answer, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert answer["Content-Type"] == "application/problem+json"


def assert_usable(api, session, script) -> None:
    """Check that the session still answers the next message."""
    script([TextDelta(text="Still here.")])
    sent = send(api, session, "are you there?")
    assert sent.status_code == 202
    serve(session.pk)
    assert Run.objects.get(pk=sent.json()["run_id"]).result["text"] == "Still here."


def test_an_accepted_event_is_returned_with_its_run(api, session, owner):
    answer = send(api, session)

    assert answer.status_code == 202
    event = SessionEvent.objects.get()
    assert answer.json() == {"event": event_body(event), "run_id": str(Run.objects.get().pk)}
    assert event.payload == {"text": "hello", "attachments": []}
    assert event.created_by_id == owner.pk


def test_events_are_read_by_seq_in_pages(api, session):
    for number in range(5):
        send(api, session, f"message {number}")
    first = api.get(at(session, "events/"), {"limit": 2}).json()
    second = api.get(first["next"]).json()
    third = api.get(second["next"]).json()

    assert [e["seq"] for page in (first, second, third) for e in page["results"]] == [1, 2, 3, 4, 5]
    assert third["next"] is None
    stored = list(session.events.order_by("seq"))
    assert api.get(at(session, "events/")).json() == {
        "results": [event_body(event) for event in stored],
        "next": None,
        "previous": None,
    }
    authored = api.get(at(session, "events/"), {"authors": 1}).json()["results"]
    assert [event["author"] for event in authored] == [author_name(event) for event in stored]
    after = api.get(at(session, "events/"), {"after": 3}).json()
    assert [e["seq"] for e in after["results"]] == [4, 5]
    assert api.get(at(session, "events/"), {"after": 99}).json()["results"] == []
    # A limit above the page size gives a full page, as in every list.
    assert len(api.get(at(session, "events/"), {"limit": 100_000}).json()["results"]) == 5


@pytest.mark.parametrize("path", ["events/", "interrupt/"])
def test_a_repeated_interrupt_does_not_stop_a_later_run(api, session, path):
    body = {"type": "user.interrupt"} if path == "events/" else {}
    send(api, session)
    assert run_queue.claim(session.pk, OWNER)
    assert post(api, at(session, path), body, **{"Idempotency-Key": "stop"}).status_code == 202
    send(api, session, "go on")
    assert run_queue.claim(session.pk, OWNER)
    # As if the first response was lost.
    IdempotentAnswer.objects.all().delete()

    assert post(api, at(session, path), body, **{"Idempotency-Key": "stop"}).status_code == 202
    assert types(session).count("user.interrupt") == 1
    assert Run.objects.filter(session=session, status="running").count() == 1


@pytest.mark.parametrize("path", ["events/", "interrupt/"])
def test_a_late_interrupt_stops_only_the_run_it_names(api, session, path):
    def stop(run_id) -> Any:
        named = {"run_id": str(run_id)}
        body = {"type": "user.interrupt", "payload": named} if path == "events/" else named
        return post(api, at(session, path), body)

    send(api, session)
    meant = run_queue.claim(session.pk, OWNER)
    assert meant
    run_queue.finish(meant, None)
    send(api, session, "go on")
    runs = run_queue.claim(session.pk, OWNER)
    assert runs

    assert_problem(stop(meant.run_id), 409, "run_over")
    assert "user.interrupt" not in types(session)
    assert Run.objects.get(pk=runs.run_id).status == "running"
    assert stop(runs.run_id).status_code == 202
    assert Run.objects.get(pk=runs.run_id).status == "cancelled"


@pytest.mark.parametrize("query", [{"after": "-1"}, {"after": "x"}, {"limit": "0"}, {"limit": "x"}])
def test_an_invalid_cursor_or_limit_is_refused(api, session, query):
    assert_problem(api.get(at(session, "events/"), query), 400, "invalid")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "user.message"},
        {"type": "agent.message", "payload": {"text": "I am the agent"}},
        {"type": "no.such.type", "payload": {}},
        {"type": 7, "payload": {"text": "x"}},
        {"type": "user.message", "payload": "text"},
        {"type": "user.message", "payload": {"text": 5}},
        {"type": "user.message", "payload": {"text": "  "}},
        {"type": "user.message", "payload": {"text": "x", "more": 1}},
        {"type": "user.message", "payload": {"text": "x" * (MAX_TEXT_LENGTH + 1)}},
        {"type": "user.message", "payload": {"text": "x"}, "on_busy": "never"},
        {"type": "user.message", "payload": {"text": "x"}, "priority": 101},
        {"type": "user.message_edited", "payload": {"seq": 0, "text": "x"}},
        {"type": "user.tool_confirmation", "payload": {"tool_use_id": "t", "decision": "maybe"}},
    ],
)
def test_an_event_that_is_not_valid_is_refused_and_the_session_stays_usable(
    api, session, script, body
):
    assert_problem(post(api, at(session, "events/"), body), 400, "invalid")
    assert types(session) == []
    assert_usable(api, session, script)


@pytest.mark.parametrize("raw", [b"{", b'{"type": "user.message", "payload": {"text": "\\ud83d"}}'])
def test_broken_json_is_refused_and_the_session_stays_usable(api, session, script, raw):
    answer = api.post(at(session, "events/"), raw, content_type="application/json")

    assert_problem(answer, 400, "malformed")
    assert_usable(api, session, script)


def test_text_that_contains_escape_sequences_is_stored_unchanged(api, session):
    words = 'A JSON string ends a C string with \\u0000 or \\\\u0000, "quoted".'
    send(api, session, words)

    assert session.events.get().payload["text"] == words


def test_the_same_idempotency_key_sends_once_even_when_the_stored_answer_is_lost(api, session):
    body = {"type": "user.message", "payload": {"text": "once"}}
    path, word = at(session, "events/"), {"Idempotency-Key": "w-1"}
    first = post(api, path, body, **word)
    again = post(api, path, body, **word)
    IdempotentAnswer.objects.all().delete()
    lost = post(api, path, body, **word)

    assert first.json() == again.json() == lost.json()
    assert session.events.count() == Run.objects.count() == 1


def test_two_clients_may_use_the_same_idempotency_key(api, session, workspace):
    body = {"type": "user.message", "payload": {"text": "hi"}}
    post(api, at(session, "events/"), body, **{"Idempotency-Key": "w-1"})
    post(key_client(workspace), at(session, "events/"), body, **{"Idempotency-Key": "w-1"})

    assert session.events.count() == 2


def test_another_body_under_the_same_idempotency_key_is_refused(api, session):
    path, word = at(session, "events/"), {"Idempotency-Key": "w-1"}
    post(api, path, {"type": "user.message", "payload": {"text": "one"}}, **word)
    other = post(api, path, {"type": "user.message", "payload": {"text": "two"}}, **word)

    assert_problem(other, 422, "idempotency_mismatch")
    assert session.events.count() == 1


@pytest.mark.django_db(transaction=True)  # The refusal ends a transaction.
def test_a_busy_session_rejects_a_message_sent_with_on_busy_reject(api, session):
    send(api, session)

    assert_problem(send(api, session, on_busy="reject"), 409, "session_busy")
    assert session.events.count() == 1


def test_a_stranger_cannot_send_events(foreign_api, session):
    assert_problem(send(foreign_api, session), 404, "not_found")
    assert types(session) == []


def confirm(api, session, tool_use_id, decision="deny", **more):
    payload = {"tool_use_id": tool_use_id, "decision": decision, **more}
    return post(api, at(session, "events/"), {"type": "user.tool_confirmation", "payload": payload})


def result(api, session, tool_use_id, output="done"):
    payload = {"tool_use_id": tool_use_id, "output": output}
    body = {"type": "user.custom_tool_result", "payload": payload}
    return post(api, at(session, "events/"), body)


def test_a_confirmation_is_accepted_once_and_the_last_one_resumes_the_session(api, session, script):
    park(session, "tu_1", "tu_2")
    first = confirm(api, session, "tu_1", note="not now")
    assert (first.status_code, first.json()["run_id"]) == (202, None)
    assert_problem(confirm(api, session, "tu_1", "allow"), 409, "nothing_to_answer")

    last = confirm(api, session, "tu_2")
    script([TextDelta(text="Left it alone.")])
    serve(session.pk)

    run = Run.objects.get(pk=last.json()["run_id"])
    assert (run.status, run.result["text"]) == ("completed", "Left it alone.")
    assert set(ToolExecution.objects.values_list("state", flat=True)) == {"denied"}


def test_answers_in_the_wrong_order_are_refused_and_the_session_stays_usable(api, session, script):
    assert_problem(confirm(api, session, "tu_1"), 404, "not_found")
    park(session, "tu_1")
    assert_problem(result(api, session, "tu_1"), 409, "nothing_to_answer")
    assert_problem(confirm(api, session, "tu_0"), 404, "not_found")
    assert confirm(api, session, "tu_1").status_code == 202
    assert_problem(confirm(api, session, "tu_1"), 409, "nothing_to_answer")
    script([TextDelta(text="Fine.")])
    serve(session.pk)
    assert_usable(api, session, script)


def test_the_result_of_a_custom_tool_resumes_the_session(api, session, script):
    park(session, "tu_1", custom=True)
    assert_problem(confirm(api, session, "tu_1"), 409, "nothing_to_answer")
    taken = result(api, session, "tu_1", {"swept": True})
    provider = script([TextDelta(text="Clean.")])
    serve(session.pk)

    assert Run.objects.get(pk=taken.json()["run_id"]).status == "completed"
    assert '{"swept":true}' in provider.requests[0].messages[-1].results[0].output
    assert_problem(result(api, session, "tu_1"), 409, "nothing_to_answer")


def test_an_interrupt_stops_the_active_run_and_returns_its_id(api, session):
    run_id = send(api, session).json()["run_id"]
    run_queue.claim(session.pk, OWNER)
    answer = post(api, at(session, "interrupt/"), {"note": "wrong file"})

    assert answer.status_code == 202
    assert answer.json()["run_id"] == run_id
    assert answer.json()["event"]["type"] == "user.interrupt"
    assert answer.json()["event"]["payload"] == {"note": "wrong file"}
    assert types(session)[-1] == "session.status_idle"
    assert Run.objects.get().status == "cancelled"
    idle = post(api, at(session, "interrupt/"), {})
    assert (idle.status_code, idle.json()["run_id"]) == (202, None)


def test_a_wake_returns_the_id_of_the_next_run_or_none(api, session):
    assert post(api, at(session, "wake/"), {}).json() == {"run_id": None}
    send(api, session, "later")
    urgent = send(api, session, "first", priority=9).json()["run_id"]

    answer = post(api, at(session, "wake/"), {})
    assert (answer.status_code, answer.json()) == (202, {"run_id": urgent})
    run_queue.claim(session.pk, OWNER)
    send(api, session, "now", priority=99)
    assert post(api, at(session, "wake/"), {}).json() == {"run_id": urgent}
