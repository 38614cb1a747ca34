"""Every event of a log, and the end of every run, reaches webhooks as REST shows them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from core.exceptions import StaleEpoch
from sessions_app.lanes import run_queue
from sessions_app.live.frames import event_body
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Run, SessionEvent
from tenants.models import WebhookDelivery
from tenants.notifications.webhooks import add_webhook, checked_events
from tests.sessions_app.conftest import OWNER, serve
from tests.sessions_app.stage import WORDS, call, say
from tests.sessions_app.waiting_calls import allow, parked

pytestmark = pytest.mark.usefixtures("stage_tools")
#: What is known only later, and what is looked up for whoever reads the log.
LATER = ("processed_at", "processed_run_id", "author")


def subscribe(workspace, *events: str) -> None:
    add_webhook(workspace_id=workspace.pk, url="https://example.com/", events=events or ["*"])


def told(type: str = "") -> list[dict[str, Any]]:
    rows = WebhookDelivery.objects.order_by("next_attempt_at")
    rows = rows.filter(type=type) if type else rows.exclude(type__startswith="run.")
    return [row.body for row in rows]


def without(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in LATER}


def test_every_event_of_a_turn_is_told_once_as_rest_shows_it(
    workspace, session, principal, script, api
):
    subscribe(workspace)
    script([call("look", "x")], WORDS)
    say(session, principal)
    serve(session.pk)

    events = list(session.events.order_by("seq"))
    assert len(events) == 6
    shown = api.get(f"/api/v1/sessions/{session.pk}/events/").json()["results"]
    assert [without(body["data"]) for body in told()] == [without(event) for event in shown]
    for body, event in zip(told(), events, strict=True):
        assert body["type"] == event.type
        assert body["timestamp"] == event_body(event)["created_at"]


def test_only_wanted_types_are_told_and_nothing_without_a_webhook(workspace, session):
    events = [
        NewEvent(type=SessionEvent.Type.ERROR, payload={"code": "x"}),
        NewEvent(type=SessionEvent.Type.AGENT_MESSAGE, payload={"text": "\u2603 1e3"}),
    ]
    append_events(session.pk, events)
    assert told() == []
    subscribe(workspace, "session.*")
    append_events(session.pk, [NewEvent(type=e.type, payload=e.payload) for e in events])

    assert [body["type"] for body in told()] == ["session.error"]


def test_a_refused_write_tells_nobody(workspace, session):
    subscribe(workspace)
    with pytest.raises(StaleEpoch), transaction.atomic():
        append_events(session.pk, [NewEvent(type=SessionEvent.Type.ERROR, payload={})], epoch=99)
    assert told() == []


def test_a_completed_run_is_told_as_rest_shows_it(workspace, session, principal, script, api):
    subscribe(workspace, "run.*")
    script(WORDS)
    say(session, principal)
    serve(session.pk)

    (body,) = told("run.completed")
    assert body["data"] == api.get(f"/api/v1/runs/{Run.objects.get().pk}/").json()
    assert WebhookDelivery.objects.count() == 1


@pytest.mark.parametrize(
    ("outcome", "type"),
    [("failed", "run.failed"), ("cancelled", "run.cancelled")],
)
def test_a_stopped_run_is_told(workspace, session, principal, outcome, type):
    subscribe(workspace, "run.*")
    say(session, principal)
    run_queue.claim(session.pk, OWNER)
    run_queue.stop(session.pk, stop_reason="interrupted", outcome=outcome)

    (body,) = told(type)
    assert body["data"]["status"] == outcome


def test_a_question_and_its_answer_are_announced_once_each(workspace, session, principal):
    subscribe(workspace, "approval.*")
    (question,) = parked(session)
    allow(question, principal)

    assert [(one["type"], one["data"]["status"]) for one in told()] == [
        ("approval.created", "pending"),
        ("approval.resolved", "allowed"),
    ]


def test_a_question_that_a_stop_ends_is_announced_once(workspace, session):
    subscribe(workspace, "approval.resolved")
    parked(session)
    run_queue.stop(session.pk)

    assert [one["data"]["status"] for one in told()] == ["cancelled"]


def test_every_type_of_a_log_can_be_asked_for():
    assert checked_events(SessionEvent.Type.values) == SessionEvent.Type.values
