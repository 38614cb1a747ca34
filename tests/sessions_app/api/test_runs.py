"""Tests of viewing, awaiting, cancelling and retrying runs over REST."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import connection
from django.test import AsyncClient

from agents.providers.base import TextDelta
from core.ids import uuid7
from sessions_app.accept import accept_event
from sessions_app.lanes import run_queue, signals
from sessions_app.models import Run, Session
from tests.conftest import key_client
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.api.test_messages import say
from tests.sessions_app.api.test_sessions import at, post
from tests.sessions_app.conftest import OWNER, serve, types

RUNS = "/api/v1/runs/"
RUNTIME = "/api/v1/runtime/"
PUBLISHED = {"id", "session_id", "status", "attempts", "result", "error", "usage", "stop_reason"}


def test_a_run_has_the_published_shape(api, session, script):
    script([TextDelta(text="Done.")])
    run_id = say(api, session, "go")["run_id"]
    waits = api.get(f"{RUNS}{run_id}/").json()
    serve(session.pk)
    done = api.get(f"{RUNS}{run_id}/").json()

    assert set(waits) >= PUBLISHED | {"created_at", "started_at", "finished_at"}
    assert (waits["status"], waits["result"], waits["started_at"]) == ("queued", None, None)
    assert (done["status"], done["stop_reason"], done["attempts"]) == ("completed", "end_turn", 1)
    assert done["session_id"] == str(session.pk)
    assert done["result"]["text"] == "Done."
    assert done["usage"]["model_calls"] == 1
    assert done["finished_at"] >= done["started_at"] >= done["created_at"]


def test_runs_are_listed_by_session_and_status(api, foreign_api, session, agent):
    run_id = say(api, session, "go")["run_id"]
    other = post(api, RUNTIME, {"agent": "Tester", "session_key": "k", "message": "hi"}).json()

    def found(**query) -> list[str]:
        return [run["id"] for run in api.get(RUNS, query).json()["results"]]

    assert found() == [other["run_id"], run_id]
    assert found(session=str(session.pk)) == [run_id]
    assert found(status="running") == []
    assert foreign_api.get(RUNS).json()["results"] == []
    assert_problem(api.get(RUNS, {"status": "odd"}), 400, "invalid")


@pytest.mark.parametrize("wait", ["-1", "61", "x", "nan"])
def test_a_wait_that_is_not_valid_is_refused(api, session, wait):
    run_id = say(api, session, "go")["run_id"]

    assert_problem(api.get(f"{RUNS}{run_id}/", {"wait": wait}), 400, "invalid")


def test_waiting_for_a_finished_run_returns_at_once(api, session):
    run_id = say(api, session, "go")["run_id"]
    api.delete(at(session))

    assert api.get(f"{RUNS}{run_id}/", {"wait": 60}).json()["status"] == "cancelled"
    assert api.get(f"{RUNS}{run_id}/", {"wait": 0.5}).json()["status"] == "cancelled"


def test_a_stranger_cannot_see_await_cancel_or_retry_a_run(api, foreign_api, session):
    run_id = say(api, session, "go")["run_id"]

    for answer in (
        foreign_api.get(f"{RUNS}{run_id}/"),
        foreign_api.get(f"{RUNS}{run_id}/", {"wait": 60}),
        foreign_api.post(f"{RUNS}{run_id}/cancel/"),
        foreign_api.post(f"{RUNS}{run_id}/retry/"),
        api.get(f"{RUNS}{uuid7()}/", {"wait": 60}),
    ):
        assert_problem(answer, 404, "not_found")
    assert Run.objects.get().status == "queued"


def accept(session: Session, principal) -> Run:
    admitted = accept_event(principal, session.pk, type="user.message", payload={"text": "go"})
    return Run.objects.get(pk=admitted.run_id)


async def wait_for(run: Run, secret: str, seconds: int = 60) -> dict:
    headers = {"x-api-key": secret}
    answer: Any = await AsyncClient().get(f"{RUNS}{run.pk}/?wait={seconds}", headers=headers)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"
    return json.loads(b"".join([part async for part in answer.streaming_content]))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_waiter_is_notified_when_the_run_ends(
    async_db, session, principal, secret, script, monkeypatch
):
    """Polling is 50 seconds away, so only the notification of the end can wake the waiter."""
    monkeypatch.setattr(signals, "POLL_SECONDS", 50.0)
    order: list[str] = []
    go_on, in_model = threading.Event(), threading.Event()

    def pause() -> None:
        in_model.set()
        assert go_on.wait(30)
        order.append("model answers")

    script([pause, TextDelta(text="Here.")])
    run = await sync_to_async(accept)(session, principal)

    async def wait() -> dict:
        told = await wait_for(run, secret)
        order.append("waiter is told")
        return told

    waiter = asyncio.create_task(wait())
    worker = threading.Thread(target=serve_in_thread, args=(session,))
    worker.start()
    await asyncio.to_thread(in_model.wait, 30)
    layer = get_channel_layer()
    await until(lambda: layer._dispatcher.groups)
    go_on.set()
    async with asyncio.timeout(30):
        told = await waiter
    await asyncio.to_thread(worker.join)

    assert order == ["model answers", "waiter is told"]
    assert (told["status"], told["result"]["text"]) == ("completed", "Here.")
    assert layer._dispatcher.groups == {}
    assert layer._dispatcher.queues == {}
    await layer.close()


def serve_in_thread(session: Session) -> None:
    try:
        serve(session.pk)
    finally:
        connection.close()


async def test_a_waiter_gets_the_current_status_when_its_time_is_up(
    async_db, session, principal, secret
):
    run = await sync_to_async(accept)(session, principal)
    told = await wait_for(run, secret, seconds=1)

    assert told["status"] == "queued"
    await get_channel_layer().close()


async def test_a_waiter_that_misses_every_notification_still_learns_of_the_end(
    async_db, session, principal, secret, monkeypatch
):
    monkeypatch.setattr(signals, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(get_channel_layer(), "group_add", sync_to_async(lambda *_: None))
    run = await sync_to_async(accept)(session, principal)
    waiter = asyncio.create_task(wait_for(run, secret))
    await until(lambda: get_channel_layer()._dispatcher.queues)
    await sync_to_async(Run.objects.filter(pk=run.pk).update)(status="failed")

    assert (await waiter)["status"] == "failed"
    await get_channel_layer().close()


def test_cancelling_withdraws_a_queued_run_and_stops_a_running_one(api, session):
    first, second = (say(api, session, text)["run_id"] for text in ("one", "two"))
    run_queue.claim(session.pk, OWNER)

    for run_id in (second, first):
        answer = api.post(f"{RUNS}{run_id}/cancel/")
        assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    assert "user.message_withdrawn" in types(session)
    assert types(session)[-1] == "session.status_idle"
    assert_problem(api.post(f"{RUNS}{first}/cancel/"), 409, "conflict")


def test_a_failed_run_is_tried_again_from_the_log(api, session, script):
    from agents.exceptions import ProviderRejected

    script([ProviderRejected("no")], [TextDelta(text="Second try.")])
    run_id = say(api, session, "go")["run_id"]
    serve(session.pk)
    failed = api.get(f"{RUNS}{run_id}/").json()
    assert (failed["status"], failed["error"]["code"]) == ("failed", "provider_rejected")

    answer = api.post(f"{RUNS}{run_id}/retry/")
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    serve(session.pk)
    assert api.get(f"{RUNS}{run_id}/").json()["result"]["text"] == "Second try."
    assert_problem(api.post(f"{RUNS}{run_id}/retry/"), 409, "conflict")


def test_a_runtime_call_creates_the_session_and_queues_a_run(api, agent, script):
    body = {"agent": "Tester", "session_key": "mail:7", "message": "Hello Ann", "priority": 3}
    first = post(api, RUNTIME, body)
    second = post(api, RUNTIME, {**body, "on_busy": "collect"})

    assert (first.status_code, second.status_code) == (202, 202)
    assert set(first.json()) == {"run_id", "session_id", "accepted_at"}
    assert first.json()["session_id"] == second.json()["session_id"]
    session = Session.objects.get(session_key="mail:7")
    assert session.title == "Hello Ann"
    assert Run.objects.get(pk=first.json()["run_id"]).priority == 3
    script([TextDelta(text="Hi.")], [TextDelta(text="Hi again.")])
    serve(session.pk)
    told = api.get(f"{RUNS}{second.json()['run_id']}/").json()
    assert told["result"]["text"] == "Hi again."


def test_a_repeated_runtime_call_sends_once(api, agent):
    body = {"agent": "Tester", "session_key": "k", "message": "once"}
    answers = [post(api, RUNTIME, body, **{"Idempotency-Key": "w"}) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"agent": "Nobody"}, 404, "not_found"),
        ({"agent": None}, 400, "invalid"),
        ({"session_key": ""}, 400, "invalid"),
        ({"message": " "}, 400, "invalid"),
        ({"on_busy": "no"}, 400, "invalid"),
    ],
)
def test_a_runtime_call_that_is_not_valid_is_refused(api, agent, changes, status, code):
    body = {"agent": "Tester", "session_key": "k", "message": "hi", **changes}

    assert_problem(post(api, RUNTIME, body), status, code)
    assert not Run.objects.exists()


def test_a_read_only_key_cannot_make_a_runtime_call(workspace, agent):
    body = {"agent": "Tester", "session_key": "k", "message": "hi"}

    assert_problem(post(key_client(workspace, "read"), RUNTIME, body), 403, "forbidden")
