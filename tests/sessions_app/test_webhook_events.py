"""Tests that log events and ends of runs reach webhooks in the form that REST shows."""

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
#: Fields that change later or are looked up for the reader.
LATER = ("processed_at", "processed_run_id", "author")


def subscribe(workspace, *events: str) -> None:
    add_webhook(workspace_id=workspace.pk, url="https://example.com/", events=events or ["*"])


def deliveries(type: str = "") -> list[dict[str, Any]]:
    rows = WebhookDelivery.objects.order_by("next_attempt_at")
    rows = rows.filter(type=type) if type else rows.exclude(type__startswith="run.")
    return [row.body for row in rows]


def without_later_fields(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in LATER}


def test_every_event_of_a_turn_is_delivered_once_as_rest_shows_it(
    workspace, session, principal, script, api
):
    subscribe(workspace)
    script([call("look", "x")], WORDS)
    say(session, principal)
    serve(session.pk)

    events = list(session.events.order_by("seq"))
    assert len(events) == 6
    shown = api.get(f"/api/v1/sessions/{session.pk}/events/").json()["results"]
    assert [without_later_fields(body["data"]) for body in deliveries()] == [
        without_later_fields(event) for event in shown
    ]
    for body, event in zip(deliveries(), events, strict=True):
        assert body["type"] == event.type
        assert body["timestamp"] == event_body(event)["created_at"]


def test_only_subscribed_types_are_delivered(workspace, session):
    events = [
        NewEvent(type=SessionEvent.Type.ERROR, payload={"code": "x"}),
        NewEvent(type=SessionEvent.Type.AGENT_MESSAGE, payload={"text": "\u2603 1e3"}),
    ]
    append_events(session.pk, events)
    assert deliveries() == []
    subscribe(workspace, "session.*")
    append_events(session.pk, [NewEvent(type=e.type, payload=e.payload) for e in events])

    assert [body["type"] for body in deliveries()] == ["session.error"]


def test_a_refused_write_delivers_nothing(workspace, session):
    subscribe(workspace)
    with pytest.raises(StaleEpoch), transaction.atomic():
        append_events(session.pk, [NewEvent(type=SessionEvent.Type.ERROR, payload={})], epoch=99)
    assert deliveries() == []


def test_a_completed_run_is_delivered_as_rest_shows_it(workspace, session, principal, script, api):
    subscribe(workspace, "run.*")
    script(WORDS)
    say(session, principal)
    serve(session.pk)

    (body,) = deliveries("run.completed")
    assert body["data"] == api.get(f"/api/v1/runs/{Run.objects.get().pk}/").json()
    assert WebhookDelivery.objects.count() == 1


@pytest.mark.parametrize(
    ("outcome", "type"),
    [("failed", "run.failed"), ("cancelled", "run.cancelled")],
)
def test_a_stopped_run_is_delivered(workspace, session, principal, outcome, type):
    subscribe(workspace, "run.*")
    say(session, principal)
    run_queue.claim(session.pk, OWNER)
    run_queue.stop(session.pk, stop_reason="interrupted", outcome=outcome)

    (body,) = deliveries(type)
    assert body["data"]["status"] == outcome


def test_an_approval_and_its_answer_are_delivered_once_each(workspace, session, principal):
    subscribe(workspace, "approval.*")
    (question,) = parked(session)
    allow(question, principal)

    assert [(one["type"], one["data"]["status"]) for one in deliveries()] == [
        ("approval.created", "pending"),
        ("approval.resolved", "allowed"),
    ]


def test_an_approval_cancelled_by_a_stop_is_delivered_once(workspace, session):
    subscribe(workspace, "approval.resolved")
    parked(session)
    run_queue.stop(session.pk)

    assert [one["data"]["status"] for one in deliveries()] == ["cancelled"]


def test_webhooks_can_subscribe_to_every_type_of_log_event():
    assert checked_events(SessionEvent.Type.values) == SessionEvent.Type.values
