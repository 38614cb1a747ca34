"""What a client sends twice under one id does its work once, whatever it is and however it crosses."""

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


SAID = pytest.mark.parametrize("said", [interrupt, edit, withdrawal, confirmation, result])
Said = Callable[..., dict[str, Any]]


@SAID
def test_said_again_it_is_told_of_the_first_and_does_nothing(session, principal, said: Said):
    event = said(session, principal)
    first = accept_event(principal, session.pk, dedupe_key="k", **event)
    before = session.events.count()

    again = accept_event(principal, session.pk, dedupe_key="k", **event)

    assert (again.seq, again.event_id) == (first.seq, first.event_id)
    assert session.events.count() == before


@SAID
@pytest.mark.django_db(transaction=True)
def test_said_twice_in_one_moment_it_is_done_once(session, principal, said: Said):
    event = said(session, principal)

    def say_it() -> Accepted:
        return accept_event(principal, session.pk, dedupe_key="k", **event)

    with ThreadPoolExecutor(4) as pool:
        heard = at_once([say_it] * 4, pool)

    assert len({one.event_id for one in heard if isinstance(one, Accepted)}) == 1
    assert session.events.filter(type=event["type"]).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_message_that_interrupts_does_not_stop_the_run_of_its_own_repetition(
    session, principal, monkeypatch
):
    stop = run_queue.stop

    def send_and_claim() -> None:
        say(session, principal, on_busy="interrupt", dedupe_key="k")
        run_queue.claim(session.pk, OWNER)

    def stop_late(*args: Any, **words: Any) -> run_queue.Stopped:
        """Between the look at what was sent before and the stop, the same arrives once more."""
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


async def test_what_the_database_cannot_hold_is_replaced_or_refused(async_db, session, principal):
    await read(park, session, "tu_1", custom=True)
    payload = {"tool_use_id": "tu_1", "output": "a\0b"}
    said = {"type": E.USER_CUSTOM_TOOL_RESULT, "payload": payload}
    huge = {**said, "payload": {**payload, "output": 10**30}}

    assert (await run_command(principal, session.pk, json.dumps(huge)))["code"] == "invalid"
    assert (await run_command(principal, session.pk, json.dumps(said)))["type"] == "ack"

    call = await read(ToolExecution.objects.get)
    assert call.output == "a\ufffdb"
