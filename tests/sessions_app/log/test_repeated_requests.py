"""Tests that an event sent twice under one id takes effect once, also concurrently."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from core.db import read
from sessions_app.accept import accept_event
from sessions_app.consumers import run_command
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Accepted
from sessions_app.models import Run, Session, ToolExecution
from tests.sessions_app.approvals.test_approval_races import at_once
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.lanes.test_run_queue import send
from tests.sessions_app.parking import park
from tests.sessions_app.stage import E, say
from tests.sessions_app.waiting_calls import parked

pytestmark = pytest.mark.django_db


def interrupt(session: Session, principal) -> dict[str, Any]:
    send(session)
    run_queue.claim(session.pk, OWNER)
    return {"type": E.USER_INTERRUPT, "payload": {}}


def edit(session: Session, principal) -> dict[str, Any]:
    payload = {"seq": send(session).seq, "text": "Better words."}
    return {"type": E.USER_MESSAGE_EDITED, "payload": payload}


def withdrawal(session: Session, principal) -> dict[str, Any]:
    return {"type": E.USER_MESSAGE_WITHDRAWN, "payload": {"seq": send(session).seq}}


def confirmation(session: Session, principal) -> dict[str, Any]:
    (asked,) = parked(session)
    assert asked.execution
    payload = {"tool_use_id": asked.execution.tool_use_id, "decision": "deny"}
    return {"type": E.USER_TOOL_CONFIRMATION, "payload": payload}


def result(session: Session, principal) -> dict[str, Any]:
    park(session, "tu_1", custom=True)
    return {"type": E.USER_CUSTOM_TOOL_RESULT, "payload": {"tool_use_id": "tu_1", "output": 7}}


for_each_event = pytest.mark.parametrize(
    "make_event", [interrupt, edit, withdrawal, confirmation, result]
)
EventFactory = Callable[..., dict[str, Any]]


@for_each_event
def test_a_repeated_event_returns_the_first_one_and_does_nothing(
    session, principal, make_event: EventFactory
):
    event = make_event(session, principal)
    first = accept_event(principal, session.pk, dedupe_key="k", **event)
    before = session.events.count()

    again = accept_event(principal, session.pk, dedupe_key="k", **event)

    assert (again.seq, again.event_id) == (first.seq, first.event_id)
    assert session.events.count() == before


@for_each_event
@pytest.mark.django_db(transaction=True)
def test_an_event_sent_concurrently_takes_effect_once(session, principal, make_event: EventFactory):
    event = make_event(session, principal)

    def send_event() -> Accepted:
        return accept_event(principal, session.pk, dedupe_key="k", **event)

    with ThreadPoolExecutor(4) as pool:
        accepted = at_once([send_event] * 4, pool)

    assert len({one.event_id for one in accepted if isinstance(one, Accepted)}) == 1
    assert session.events.filter(type=event["type"]).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_repeated_interrupting_message_does_not_stop_its_own_run(session, principal, monkeypatch):
    stop = run_queue.stop

    def send_and_claim() -> None:
        say(session, principal, on_busy="interrupt", dedupe_key="k")
        run_queue.claim(session.pk, OWNER)

    def stop_late(*args: Any, **words: Any) -> run_queue.Stopped:
        """Let the same message arrive between the check for a repetition and the stop."""
        monkeypatch.setattr(run_queue, "stop", stop)
        crossing.append(pool.submit(at_once, [send_and_claim], pool))
        wait(crossing, timeout=1.0)
        return stop(*args, **words)

    crossing: list[Future[object]] = []
    monkeypatch.setattr(run_queue, "stop", stop_late)
    with ThreadPoolExecutor(2) as pool:
        say(session, principal, on_busy="interrupt", dedupe_key="k")
        crossing[0].result()

    assert Run.objects.get().status == "running"


async def test_values_that_the_database_cannot_store_are_replaced_or_refused(
    async_db, session, principal
):
    await read(park, session, "tu_1", custom=True)
    payload = {"tool_use_id": "tu_1", "output": "a\0b"}
    event = {"type": E.USER_CUSTOM_TOOL_RESULT, "payload": payload}
    huge = {**event, "payload": {**payload, "output": 10**30}}

    assert (await run_command(principal, session.pk, json.dumps(huge)))["code"] == "invalid"
    assert (await run_command(principal, session.pk, json.dumps(event)))["type"] == "ack"

    call = await read(ToolExecution.objects.get)
    assert call.output == "a\ufffdb"
