"""The buttons of a chat in a browser without a script."""

from __future__ import annotations

import re

import pytest

from agents.providers.base import TextDelta, Truncated
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.conftest import OWNER, newest, serve
from tests.sessions_app.parking import park

E = SessionEvent.Type
#: Arguments that the log cannot hold.
DEEP = '{"place":' * 200 + "1" + "}" * 200


def ask(session: Session, text: str) -> Run:
    accepted = run_queue.accept(session.pk, NewEvent(type=E.USER_MESSAGE, payload={"text": text}))
    return Run.objects.get(pk=accepted.run_id)


def test_stop_stops_what_runs(browser_client, session):
    run = ask(session, "count to 3")
    assert run_queue.claim(session.pk, OWNER)
    answer = browser_client.post(f"/chat/{session.pk}/stop/")

    run.refresh_from_db()
    assert answer.headers["Location"] == f"/chat/{session.pk}/"
    assert run.status == Run.Status.CANCELLED


@pytest.mark.parametrize(
    ("typed", "used"),
    [("", {"place": "yard"}), ('{"place": "shed"}', {"place": "shed"})],
    ids=["as they are", "edited"],
)
def test_allow_takes_the_arguments(browser_client, session, typed, used):
    park(session, "tu_1")
    form = {"tool_use_id": "tu_1", "decision": "allow", "input": typed}
    browser_client.post(f"/chat/{session.pk}/answer/", form)

    call = ToolExecution.objects.get()
    assert (call.state, call.input) == ("requested", used)


def test_deny_hands_the_reason_on(browser_client, session):
    park(session, "tu_1")
    form = {"tool_use_id": "tu_1", "decision": "deny", "note": "not now"}
    browser_client.post(f"/chat/{session.pk}/answer/", form)

    assert ToolExecution.objects.get().error == "A person refused: not now"


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"tool_use_id": "tu_1", "decision": "allow", "input": "{"}, "are not valid JSON"),
        ({"tool_use_id": "tu_1", "decision": "allow", "input": "[]"}, "must be a JSON object"),
        ({"tool_use_id": "tu_1", "decision": "allow", "input": DEEP}, "nested too deeply"),
        ({"tool_use_id": "tu_9", "decision": "allow"}, "has no call"),
        ({"tool_use_id": "tu_1", "decision": "maybe"}, "Select a valid choice"),
    ],
)
def test_a_wrong_answer_is_explained_and_changes_nothing(browser_client, session, form, complaint):
    park(session, "tu_1")
    page = browser_client.post(f"/chat/{session.pk}/answer/", form, follow=True).text

    assert complaint in page
    assert ToolExecution.objects.get().state == "awaiting_approval"


def test_a_second_answer_is_told_that_it_is_late(browser_client, session):
    park(session, "tu_1")
    form = {"tool_use_id": "tu_1", "decision": "allow"}
    browser_client.post(f"/chat/{session.pk}/answer/", form)
    page = browser_client.post(f"/chat/{session.pk}/answer/", form, follow=True).text

    assert "owner@example.com allowed this once at" in page


def test_retry_queues_a_failed_run_again(browser_client, session):
    run = ask(session, "fail with rejection")
    serve(session.pk)
    browser_client.post(f"/chat/{session.pk}/retry/", {"run": str(run.pk)})

    run.refresh_from_db()
    assert run.status == Run.Status.QUEUED


def test_the_button_of_a_truncated_answer_asks_once_to_continue(browser_client, session, script):
    script([TextDelta(text="And then"), Truncated()])
    ask(session, "tell me")
    serve(session.pk)
    page = browser_client.get(f"/chat/{session.pk}/").text
    form = page[page.index('data-action="continue"') :]
    once = re.search(r'name="once" value="([^"]+)"', form)
    text = re.search(r'name="text" value="([^"]+)"', form)
    assert once
    assert text
    for _ in range(2):
        sent = {"once": once[1], "text": text[1]}
        assert browser_client.post(f"/chat/{session.pk}/", sent).status_code == 302

    said = [e.payload["text"] for e in session.events.filter(type="user.message")]
    assert said == ["tell me", "Continue where you stopped."]
    assert "reached its token limit" in page


def test_a_waiting_message_is_taken_back(browser_client, session):
    ask(session, "first")
    assert run_queue.claim(session.pk, OWNER)
    waiting = ask(session, "second")
    browser_client.post(f"/chat/{session.pk}/withdraw/", {"run": str(waiting.pk)})

    waiting.refresh_from_db()
    assert waiting.status == Run.Status.CANCELLED
    assert newest(session, E.USER_MESSAGE_WITHDRAWN).payload == {"seq": 3}


@pytest.mark.parametrize("button", ["retry", "withdraw"])
def test_a_run_of_another_session_is_not_found_here(browser_client, session, agent, button):
    other, _ = get_or_create_session(agent=agent)
    run = ask(other, "hello")
    url = f"/chat/{session.pk}/{button}/"

    assert "This does not exist" in browser_client.post(url, {"run": run.pk}, follow=True).text
    assert "names no run" in browser_client.post(url, {"run": "x"}, follow=True).text
    run.refresh_from_db()
    assert run.status == Run.Status.QUEUED
