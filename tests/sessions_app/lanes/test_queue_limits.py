"""Tests of how many messages may wait in a session and in a workspace."""

from __future__ import annotations

import pytest
from django.db import transaction

from sessions_app.exceptions import QueueFull, WorkspaceQueueFull
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, SessionEvent
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.api.test_sessions import at, post
from tests.sessions_app.conftest import OWNER, serve
from tests.sessions_app.stage import WORDS, say

MESSAGE = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": "hello"})


@pytest.fixture
def three_per_session(settings) -> None:
    settings.QUEUE_PER_SESSION = 3


@pytest.mark.parametrize("mode", ["followup", "collect", "steer"])
def test_a_session_accepts_only_so_many_waiting_messages(
    session, principal, three_per_session, mode
):
    for _ in range(3):
        say(session, principal, on_busy=mode)

    with pytest.raises(QueueFull, match="in this session"), transaction.atomic():
        say(session, principal, on_busy=mode)
    assert session.events.filter(type="user.message").count() == 3


def test_messages_that_join_a_running_answer_count(session, principal, three_per_session):
    say(session, principal)
    run_queue.claim(session.pk, OWNER)
    for _ in range(2):
        say(session, principal, on_busy="steer")

    with pytest.raises(QueueFull), transaction.atomic():
        say(session, principal, on_busy="steer")


def test_an_answer_makes_room(session, principal, script, three_per_session):
    script(WORDS, WORDS, WORDS, WORDS)
    for _ in range(3):
        say(session, principal)
    serve(session.pk)

    say(session, principal)


def test_a_full_queue_is_answered_with_429_and_a_time_to_wait(api, session, settings):
    settings.QUEUE_PER_SESSION = 1
    assert post(api, at(session, "messages/"), {"text": "one"}).status_code == 202

    refused = post(api, at(session, "messages/"), {"text": "two"})

    assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
    assert int(refused["Retry-After"]) > 0


def test_a_repeated_message_is_not_refused(api, session, settings):
    settings.QUEUE_PER_SESSION = 1
    word = {"Idempotency-Key": "w-1"}
    answers = [post(api, at(session, "messages/"), {"text": "one"}, **word) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [202, 202]


def test_the_runtime_door_refuses_too(api, session, agent, settings):
    settings.QUEUE_PER_SESSION = 1
    body = {"agent": str(agent.pk), "session_key": "k", "message": "hi"}
    first = api.post("/api/v1/runtime/", body, format="json")
    assert first.status_code < 300, first.content

    assert api.post("/api/v1/runtime/", body, format="json").status_code == 429


def test_a_workspace_accepts_only_so_many_waiting_runs(agent, principal, settings):
    settings.QUEUE_PER_WORKSPACE = 2
    talks = [get_or_create_session(agent=agent, session_key=f"t{n}")[0] for n in range(3)]
    for talk in talks[:2]:
        say(talk, principal)

    with pytest.raises(WorkspaceQueueFull, match="in this workspace"), transaction.atomic():
        say(talks[2], principal)
    run_queue.claim(talks[0].pk, OWNER)
    say(talks[2], principal)


def test_what_agents_and_schedules_send_is_never_refused(session, principal, settings):
    settings.QUEUE_PER_SESSION = settings.QUEUE_PER_WORKSPACE = 1
    say(session, principal)

    run_queue.accept(session.pk, MESSAGE)

    assert Run.objects.filter(session=session, status="queued").count() == 2
