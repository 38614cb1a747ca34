"""Tests of viewing, editing, moving and withdrawing queued messages over REST."""

from __future__ import annotations

import pytest

from agents.providers.base import TextDelta
from core.ids import uuid7
from sessions_app import accept
from sessions_app.accept import accept_event
from sessions_app.lanes import run_queue
from sessions_app.lanes.queued_messages import list_queue, move_run
from sessions_app.models import Run
from tenants.exceptions import BudgetReached
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.api.test_messages import say, states
from tests.sessions_app.api.test_sessions import at, post
from tests.sessions_app.conftest import OWNER, serve
from tests.sessions_app.parking import park


@pytest.fixture
def queued(api, session) -> list[str]:
    """Queue three messages behind a running one and return the ids of their runs."""
    say(api, session, "running")
    run_queue.claim(session.pk, OWNER)
    return [say(api, session, text)["run_id"] for text in ("a", "b", "c")]


def queue(api, session) -> list[dict]:
    return api.get(at(session, "queue/")).json()["results"]


def change(api, session, run_id, **body):
    return api.patch(at(session, f"queue/{run_id}/"), body, format="json")


def texts(api, session) -> list[str]:
    return [place["text"] for place in queue(api, session)]


def test_the_queue_lists_each_waiting_run(api, session, queued):
    first = queue(api, session)[0]

    assert first == {
        "run_id": queued[0],
        "position": 0,
        "text": "a",
        "on_busy": "followup",
        "priority": 0,
        "message_seqs": [3],
        "created_at": first["created_at"],
    }
    assert [place["run_id"] for place in queue(api, session)] == queued
    assert api.get(at(session)).json()["queue_length"] == 3


def test_the_queue_names_the_last_seq_it_reflects(api, session, queued):
    session.refresh_from_db()
    shown = api.get(at(session, "queue/")).json()
    assert shown["last_seq"] == session.last_seq

    changed = change(api, session, queued[0], text="A!").json()
    assert changed["last_seq"] == session.events.get(type="user.message_edited").seq


def test_an_edited_queued_message_is_what_the_model_reads(api, session, queued, script):
    answer = change(api, session, queued[0], text="A!")
    assert session.events.get(type="user.message_edited").processed_at

    assert answer.status_code == 200
    assert [place["text"] for place in answer.json()["results"]] == ["A!", "b", "c"]
    assert answer.json() == {**queue(api, session)[0], **api.get(at(session, "queue/")).json()}
    post_stop = api.post(at(session, "interrupt/"), {}, format="json")
    assert post_stop.status_code == 202
    provider = script(*([TextDelta(text="ok")] for _ in range(3)))
    serve(session.pk)
    assert [request.messages[-1].text.split("\n")[-1] for request in provider.requests] == [
        "A!",
        "b",
        "c",
    ]


def test_a_waiting_message_is_moved(api, session, queued):
    change(api, session, queued[2], position=0)
    assert texts(api, session) == ["c", "a", "b"]
    change(api, session, queued[2], position=1)
    assert texts(api, session) == ["a", "c", "b"]
    change(api, session, queued[0], position=99, text="last")
    assert texts(api, session) == ["c", "b", "last"]


def test_a_withdrawn_message_never_runs(api, session, queued):
    assert api.delete(at(session, f"queue/{queued[1]}/")).status_code == 204

    assert texts(api, session) == ["a", "c"]
    gone = Run.objects.get(pk=queued[1])
    assert (gone.status, gone.stop_reason) == ("cancelled", "withdrawn")
    assert gone.finished_at
    assert states(api, session)["b"] == "withdrawn"
    assert_problem(api.delete(at(session, f"queue/{queued[1]}/")), 409, "conflict")


def test_a_queued_message_can_be_steered_into_the_active_run(api, session, queued):
    file = {"name": "a.txt", "path": "/workspace/a.txt", "media_type": "text/plain", "size": 3}
    say(api, session, "d", on_busy="collect")
    collected = say(api, session, "e", attachments=[file], on_busy="collect")["run_id"]
    running = Run.objects.get(status="running")

    sent = change(api, session, collected, on_busy="steer")

    assert sent.status_code == 200
    assert [one["text"] for one in sent.json()["results"]] == ["a", "b", "c"]
    steered = session.events.order_by("seq").last()
    assert steered.payload["text"] == "d\n\ne"
    assert steered.payload["attachments"] == [file]
    assert steered.seq in Run.objects.get(pk=running.pk).message_seqs
    assert_problem(change(api, session, collected, on_busy="steer"), 409, "conflict")


def test_a_queued_message_can_interrupt_the_active_run(api, session, queued):
    running = Run.objects.get(status="running")

    change(api, session, queued[2], on_busy="interrupt")

    running.refresh_from_db()
    assert (running.status, running.stop_reason) == ("cancelled", "interrupted")
    assert texts(api, session)[0] == "c"


def test_a_message_that_cannot_be_sent_now_stays_queued(api, session, queued, monkeypatch):
    def empty(*args):
        raise BudgetReached("The purse is empty.")

    monkeypatch.setattr(accept, "check_purses", empty)

    assert_problem(change(api, session, queued[1], on_busy="steer"), 402, "budget_reached")
    assert texts(api, session) == ["a", "b", "c"]


def test_withdrawing_a_steered_message_does_not_end_the_running_turn(api, session):
    park(session, "tu_1")
    answer = {"tool_use_id": "tu_1", "decision": "deny"}
    post(api, at(session, "events/"), {"type": "user.tool_confirmation", "payload": answer})
    claim = run_queue.claim(session.pk, OWNER)
    steered = say(api, session, "also", on_busy="steer")
    seq = steered["event"]["seq"]
    assert steered["run_id"] == str(claim.run_id)
    withdrawal = {"type": "user.message_withdrawn", "payload": {"seq": seq}}

    assert post(api, at(session, "events/"), withdrawal).status_code == 202
    assert Run.objects.get(pk=claim.run_id).status == "running"
    assert run_queue.step(claim) == 0


@pytest.mark.parametrize(
    "body", [{"text": ""}, {"position": -1}, {"position": "first"}, {"on_busy": "reject"}]
)
def test_a_change_that_is_not_valid_is_refused_and_changes_nothing(api, session, queued, body):
    assert_problem(change(api, session, queued[0], **body), 400, "invalid")
    assert texts(api, session) == ["a", "b", "c"]


def test_a_message_that_a_run_has_taken_cannot_be_changed(api, session, queued):
    running = str(Run.objects.get(status="running").pk)

    assert_problem(change(api, session, running, text="other"), 409, "conflict")
    assert_problem(api.delete(at(session, f"queue/{running}/")), 409, "conflict")


def test_a_run_of_another_session_or_workspace_is_not_found(
    api, foreign_api, session, queued, agent
):
    other = api.post("/api/v1/sessions/", {"agent": "Tester"}, format="json").json()["id"]

    assert_problem(change(api, other, queued[0], text="x"), 404, "not_found")
    assert_problem(change(api, session, uuid7(), text="x"), 404, "not_found")
    assert_problem(change(foreign_api, session, queued[0], text="x"), 404, "not_found")
    assert_problem(foreign_api.get(at(session, "queue/")), 404, "not_found")
    assert texts(api, session) == ["a", "b", "c"]


def test_a_message_can_be_moved_past_other_priorities(principal, session):
    for text, priority in (("urgent", 5), ("plain", 0), ("late", 0)):
        accept_event(
            principal,
            session.pk,
            type="user.message",
            payload={"text": text},
            priority=priority,
        )
    late = list_queue(session)[-1]

    for position in (0, 1, 2, 1, 0):
        move_run(session, late.run_id, position)
        assert [q.text for q in list_queue(session)].index("late") == position
