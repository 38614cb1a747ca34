"""The socket of a session: replay, live frames, drafts, slowness, rights."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from django.db import connection

from sessions_app import hub as hub_module
from sessions_app import viewer as viewer_module
from sessions_app.hub import hub
from sessions_app.models import Session
from tenants.ids import uuid7
from tenants.keys import find_key, revoke_key
from tenants.models import Membership, Workspace
from tests.sessions_app.following import (
    Follower,
    Socket,
    connected,
    finish_answer,
    in_thread,
    key_for,
    new_session,
    say,
    write_on,
)

ANSWER = "Grüße 🚂🚃🚃 aus dem Stellwerk, mit e\u0301 und 👩‍🔧. " * 40


@pytest.fixture
def session(workspace: Workspace) -> Session:
    return new_session(workspace)


@pytest.fixture
def secret(workspace: Workspace) -> str:
    return key_for(workspace)


async def test_a_viewer_gets_all_stored_events_in_order_and_then_those_that_come(
    async_db, session, secret
):
    await in_thread(say)(session, *(f"old {n}" for n in range(250)))
    async with connected(session, secret) as socket:
        await socket.until_seq(250)
        await in_thread(say)(session, "new")
        last = await socket.frame()

    assert socket.follower.seqs == list(range(1, 252))
    assert last["type"] == "lifecycle"
    assert last["metadata"]["event"]["payload"] == {"text": "new"}


async def test_a_viewer_begins_after_its_cursor(async_db, session, secret):
    await in_thread(say)(session, "one", "two", "three")
    async with connected(session, secret, after=2) as socket:
        await socket.until_seq(3)

    assert socket.follower.seqs == [3]


async def test_a_cursor_beyond_the_end_begins_at_the_end(async_db, session, secret):
    await in_thread(say)(session, "one", "two")
    async with connected(session, secret, after=900) as socket:
        await asyncio.sleep(0.2)
        await in_thread(say)(session, "three")
        await socket.until_seq(3)

    assert socket.follower.seqs == [3]


async def test_no_event_is_missed_or_doubled_while_many_are_written_during_connecting(
    async_db, session, secret
):
    total, begun = 240, asyncio.Event()

    async def write() -> None:
        for number in range(total):
            await in_thread(say, thread_sensitive=False)(session, str(number))
            if number == 20:
                begun.set()
        connection.close()

    async def follow() -> list[int]:
        await begun.wait()
        await asyncio.sleep(random.random() / 4)
        async with connected(session, secret) as socket:
            await socket.until_seq(total)
        return socket.follower.seqs

    _, *seen = await asyncio.gather(write(), *(follow() for _ in range(6)))

    assert seen == [list(range(1, total + 1))] * 6


async def test_a_socket_cut_twenty_times_during_an_answer_ends_with_the_same_text(
    async_db, session, secret
):
    event_id, follower = uuid7(), Follower()

    async def answer() -> None:
        for start in range(0, len(ANSWER), 25):
            await in_thread(write_on)(session, event_id, start, ANSWER[start : start + 25])
        await in_thread(finish_answer)(session, event_id, ANSWER)

    writing = asyncio.create_task(answer())
    for _ in range(20):
        async with connected(session, secret, after=follower.cursor, follower=follower) as socket:
            await socket.frame()
            assert ANSWER.startswith(follower.texts[str(event_id)])
    async with connected(session, secret, after=follower.cursor, follower=follower) as socket:
        await socket.until_seq(1)
    await writing

    assert follower.texts == {str(event_id): ANSWER}
    assert follower.seqs == [1]


async def test_who_joins_in_mid_answer_sees_all_of_it_once(async_db, session, secret):
    event_id = uuid7()
    await in_thread(write_on)(session, event_id, 0, "🚂 Hello")
    async with connected(session, secret) as early:
        first = await early.frame()
        async with connected(session, secret) as late:
            await late.frame()
            await in_thread(write_on)(session, event_id, 7, ", world 🌍!")
            second = await late.frame()
            await in_thread(finish_answer)(session, event_id, "🚂 Hello, world 🌍!")
            await late.until_seq(1)
            await early.until_seq(1)

    assert (first["seq"], first["content"], first["metadata"]["offset"]) == (None, "🚂 Hello", 0)
    assert (second["content"], second["metadata"]["offset"]) == (", world 🌍!", 7)
    assert early.follower.frames == late.follower.frames


async def test_deltas_never_follow_their_stored_event(async_db, session, secret):
    answers = {uuid7(): f"answer {n} " * 5 for n in range(8)}
    async with connected(session, secret) as socket:
        for event_id, text in answers.items():
            await in_thread(write_on)(session, event_id, 0, text[:20])
            # The event is stored while deltas of it are still on their way, and some come late.
            await in_thread(finish_answer)(session, event_id, text)
            await in_thread(send_late)(session, event_id, text)
        await in_thread(say)(session, "end")
        await socket.until_seq(len(answers) + 1)

    assert socket.follower.late_deltas == 0
    assert socket.follower.texts == {str(i): text for i, text in answers.items()}


def send_late(session: Session, event_id: Any, text: str) -> None:
    from sessions_app.stream import send_delta

    for offset in (0, 20):
        send_delta(
            session_id=session.pk, event_id=event_id, run_id=None, offset=offset, text=text[offset:]
        )


async def test_a_late_delta_is_not_shown_to_who_joined_after_its_event(async_db, session, secret):
    event_id = uuid7()
    await in_thread(finish_answer)(session, event_id, "done")
    async with connected(session, secret, after=1) as socket:
        await asyncio.sleep(0.2)
        await in_thread(send_late)(session, event_id, "done")
        await in_thread(say)(session, "end")
        await socket.until_seq(2)

    assert [frame["seq"] for frame in socket.follower.frames] == [2]


async def test_deltas_that_were_lost_are_made_up_from_the_draft(async_db, session, secret):
    event_id = uuid7()
    async with connected(session, secret) as socket:
        await in_thread(write_on)(session, event_id, 0, "one ")
        await socket.frame()
        await in_thread(write_unheard)(session, "one two ")
        await in_thread(write_on)(session, event_id, 8, "three")
        await socket.until(lambda frame: frame["content"].endswith("three"))

    assert socket.follower.texts == {str(event_id): "one two three"}


def write_unheard(session: Session, text: str) -> None:
    from sessions_app.models import Draft

    Draft.objects.filter(session=session).update(text=text)


async def test_an_answer_that_begins_anew_replaces_what_was_shown(async_db, session, secret):
    event_id = uuid7()
    async with connected(session, secret) as socket:
        await in_thread(write_on)(session, event_id, 0, "wrong way")
        await socket.frame()
        await in_thread(write_on)(session, event_id, 0, "right")
        await socket.frame()

    assert socket.follower.texts == {str(event_id): "right"}


def append_silently(session: Session) -> None:
    """Write to the log and lose the ring."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT log_append(%s, NULL, NULL, NULL, jsonb_build_array("
            "new_event('user.message', '{\"text\": \"silent\"}')))",
            [session.pk],
        )


async def test_a_lost_ring_is_made_up_by_the_slow_look(async_db, session, secret, monkeypatch):
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.2)
    async with connected(session, secret) as socket:
        await in_thread(say)(session, "heard")
        await socket.until_seq(1)
        await in_thread(append_silently)(session)
        await socket.until_seq(2)

    assert socket.follower.seqs == [1, 2]


async def test_a_lost_listener_is_made_up_when_it_is_back(async_db, session, secret):
    async with connected(session, secret) as socket:
        await in_thread(say)(session, "heard")
        await socket.until_seq(1)
        await in_thread(append_silently)(session)
        await in_thread(end_listeners)()
        await socket.until_seq(2)

    assert socket.follower.seqs == [1, 2]


def end_listeners() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'switchyard live' AND datname = current_database()"
        )


async def test_the_slow_look_costs_the_same_for_one_viewer_and_for_many(
    async_db, workspace, session, secret, django_assert_max_num_queries
):
    others = [await in_thread(new_session)(workspace) for _ in range(3)]
    sockets = [Socket(s, secret) for s in [session, *others] for _ in range(3)]
    for socket in sockets:
        await socket.connect()
    await in_thread(say)(session, "hello")
    for socket in sockets[:3]:
        await socket.until_seq(1)

    def queries() -> int:
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as captured:
            from sessions_app.reader import SessionLog
            from sessions_app.rights import revoked

            watches = list(here.watches.values())
            SessionLog.heads([w.log for w in watches])  # type: ignore[misc]
            revoked({v.principal for w in watches for v in w.viewers})
        return len(captured)

    here = hub()
    assert len(here.watches) == 4
    assert await in_thread(queries)() <= 3
    for socket in sockets:
        await socket.disconnect()
    assert not here.watches


async def test_a_slow_viewer_is_dropped_with_a_code_and_resumes_without_loss(
    async_db, session, secret, monkeypatch
):
    monkeypatch.setattr(viewer_module, "MOST_WAITING_FRAMES", 5)
    monkeypatch.setattr("sessions_app.consumers.SEND_SECONDS", 60)
    follower, stuck = Follower(), asyncio.Event()

    async with slow_socket(session, secret, follower, stuck) as slow:
        await in_thread(say)(session, "first")
        await slow.until_seq(1)
        stuck.set()
        for number in range(20):
            await in_thread(say)(session, str(number))
        await watch_has_seen(session, 21)
        stuck.clear()
        code = None
        while code is None:
            message = await slow.receive_output(timeout=20)
            if message["type"] == "websocket.close":
                code = message["code"]
            else:
                import json

                follower.take(json.loads(message["text"]))

    assert code == 4408
    assert follower.cursor < 21
    async with connected(session, secret, after=follower.cursor, follower=follower) as again:
        await again.until_seq(21)
    assert follower.seqs == list(range(1, 22))


def slow_socket(session: Session, secret: str, follower: Follower, stuck: asyncio.Event) -> Any:
    """A socket whose client stops reading while `stuck` is set."""
    from contextlib import asynccontextmanager

    from tests.sessions_app.following import application

    async def sluggish(scope: Any, receive: Any, send: Any) -> None:
        async def wait_and_send(message: Any) -> None:
            await send(message)
            while stuck.is_set():
                await asyncio.sleep(0.01)

        await application(scope, receive, wait_and_send)

    @asynccontextmanager
    async def opened():
        socket = Socket(session, secret, follower=follower, application=sluggish)
        await socket.connect()
        yield socket
        await socket.disconnect()

    return opened()


async def watch_has_seen(session: Session, seq: int) -> None:
    watch = hub().watches[f"session.{session.pk}"]
    async with asyncio.timeout(20):
        while watch.seen < seq:
            await asyncio.sleep(0.02)


async def test_a_frame_that_takes_too_long_drops_the_viewer(
    async_db, session, secret, monkeypatch
):
    monkeypatch.setattr("sessions_app.consumers.SEND_SECONDS", 0.1)
    stuck = asyncio.Event()
    async with slow_socket(session, secret, Follower(), stuck) as slow:
        await in_thread(say)(session, "first")
        await slow.until_seq(1)
        stuck.set()
        await in_thread(say)(session, "second")
        await slow.until_seq(2)
        await asyncio.sleep(0.3)
        stuck.clear()
        assert await slow.closed() == 4408


async def test_a_stranger_gets_what_a_session_that_does_not_exist_gets(
    async_db, session, foreign_workspace
):
    stranger = await in_thread(key_for)(foreign_workspace)
    for target in (session, uuid7()):
        async with connected(target, stranger) as socket:
            assert await socket.closed() == 4404


async def test_nobody_gets_in_without_an_identity(async_db, session):
    for secret in ("", "sy_wrong"):
        async with connected(session, secret) as socket:
            assert await socket.closed() == 4401


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "9" * 30])
async def test_a_bad_cursor_is_refused(async_db, session, secret, after):
    async with connected(session, secret, after=after) as socket:
        assert await socket.closed() == 4400


async def test_a_revoked_key_is_closed(async_db, workspace, session, secret, monkeypatch):
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.1)
    key = await in_thread(find_key)(secret)
    async with connected(session, secret) as socket:
        await in_thread(say)(session, "hello")
        await socket.until_seq(1)
        await in_thread(revoke_key)(workspace_id=workspace.pk, key_id=key.pk)
        assert await socket.closed() == 4401


async def test_a_person_who_left_the_workspace_is_closed(
    async_db, workspace, session, owner, monkeypatch
):
    from django.test import Client

    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.1)
    client = Client()
    await in_thread(client.force_login)(owner)
    socket = Socket(session, "")
    socket.scope["headers"] = [
        (b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()),
        (b"origin", b"http://localhost"),
        (b"host", b"localhost"),
    ]
    assert (await socket.connect())[0]
    await in_thread(say)(session, "hello")
    await socket.until_seq(1)
    await in_thread(Membership.objects.filter(user=owner).delete)()
    assert await socket.closed() == 4401
    await socket.disconnect()


async def test_only_the_servers_own_subprotocol_is_echoed(async_db, session, secret):
    socket = Socket(session, "")
    socket.scope["subprotocols"] = [f"key.{secret}", "switchyard.v1"]
    assert await socket.connect() == (True, "switchyard.v1")
    await socket.disconnect()

    socket = Socket(session, "")
    socket.scope["subprotocols"] = [f"key.{secret}"]
    assert await socket.connect() == (True, None)
    await in_thread(say)(session, "let in")
    await socket.until_seq(1)
    await socket.disconnect()


async def test_nothing_is_left_behind_when_viewers_go(async_db, session, secret):
    async with connected(session, secret), connected(session, secret) as socket:
        await in_thread(say)(session, "hello")
        await socket.until_seq(1)
        assert len(hub().watches) == 1

    assert not hub().watches
    tasks = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(name.startswith(("pump", "follow", "open")) for name in tasks)
