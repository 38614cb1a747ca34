"""Tests of a session's socket: replay, live frames, permissions, limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from core.db import read
from core.exceptions import NotFound
from core.ids import uuid7
from sessions_app.accept import accept_event
from sessions_app.live import hub as hub_module
from sessions_app.live.hub import hub
from sessions_app.live.reader import SessionLog
from tenants.keys import find_key, revoke_key
from tenants.models import Membership
from tests.sessions_app.live.stream_client import (
    Socket,
    connected,
    in_thread,
    joined,
    key_for,
    new_session,
    say,
)


async def test_a_viewer_gets_stored_events_in_order_and_then_new_ones(async_db, session, secret):
    await in_thread(say)(session, *(f"old {n}" for n in range(250)))
    async with connected(session, secret) as socket:
        await socket.until_seq(250)
        await in_thread(say)(session, "new")
        last = await socket.frame()

    assert socket.follower.seqs == list(range(1, 252))
    assert last["type"] == "lifecycle"
    assert last["metadata"]["event"]["payload"] == {"text": "new"}


async def test_a_frame_names_its_author_with_one_query_for_all_frames(
    async_db, session, principal, secret
):
    message: dict[str, Any] = {"type": "user.message", "payload": {"text": "hi"}}
    for _ in range(5):
        await in_thread(accept_event)(principal, session.pk, **message)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            SessionLog(session_id=session.pk).page(0)
        return len(captured)

    assert await in_thread(queries)() == 2
    async with connected(session, secret) as socket:
        frame = await socket.frame()
    assert frame["metadata"]["author"] == principal.user.display_name


async def test_a_viewer_begins_after_its_cursor(async_db, session, secret):
    await in_thread(say)(session, "one", "two", "three")
    async with connected(session, secret, after=2) as socket:
        await socket.until_seq(3)

    assert socket.follower.seqs == [3]


async def test_a_cursor_beyond_the_end_begins_at_the_end(async_db, session, secret):
    await in_thread(say)(session, "one", "two")
    async with connected(session, secret, after=900) as socket:
        await joined(session)
        await in_thread(say)(session, "three")
        await socket.until_seq(3)

    assert socket.follower.seqs == [3]


async def test_no_event_is_missed_or_repeated_while_viewers_connect_during_writes(
    async_db, session, secret
):
    total, begun = 240, asyncio.Event()

    async def write() -> None:
        for number in range(total):
            await read(say, session, str(number))
            if number == 20:
                begun.set()

    async def follow(nth: int) -> list[int]:
        await begun.wait()
        await asyncio.sleep(nth / 20)
        async with connected(session, secret) as socket:
            await socket.until_seq(total)
        return socket.follower.seqs

    _, *seen = await asyncio.gather(write(), *(follow(nth) for nth in range(6)))

    assert seen == [list(range(1, total + 1))] * 6


async def test_a_foreign_session_looks_like_a_missing_one(async_db, session, foreign_workspace):
    stranger = await in_thread(key_for)(foreign_workspace)
    for target in (session, uuid7()):
        async with connected(target, stranger) as socket:
            assert await socket.closed() == 4404


async def test_a_closed_socket_gives_a_reason(async_db, secret):
    async with connected(uuid7(), secret) as socket:
        ended = await socket.receive_output(timeout=20)

    assert (ended["code"], ended["reason"]) == (4404, NotFound().detail)


async def test_a_long_reason_is_cut_to_fit_its_frame(async_db, session, secret, monkeypatch):
    def refuse(*_):
        raise NotFound("ü" * 200)

    monkeypatch.setattr("sessions_app.consumers.find_session", refuse)
    async with connected(session, secret) as socket:
        ended = await socket.receive_output(timeout=20)

    assert ended["reason"] == "ü" * 61


async def test_a_socket_without_an_identity_is_refused(async_db, session):
    for secret in ("", "sy_wrong"):
        async with connected(session, secret) as socket:
            assert await socket.closed() == 4401


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "9" * 30])
async def test_a_bad_cursor_is_refused(async_db, session, secret, after):
    async with connected(session, secret, after=after) as socket:
        assert await socket.closed() == 4400


async def test_the_socket_of_a_revoked_key_is_closed(
    async_db, workspace, session, secret, monkeypatch
):
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 0.1)
    key = await in_thread(find_key)(secret)
    assert key
    async with connected(session, secret) as socket:
        await in_thread(say)(session, "hello")
        await socket.until_seq(1)
        await in_thread(revoke_key)(workspace_id=workspace.pk, key_id=key.pk)
        assert await socket.closed() == 4401


@asynccontextmanager
async def signed_in(session, owner) -> AsyncIterator[tuple[Socket, Client]]:
    """Open a socket with the cookie of a signed-in browser."""
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
    try:
        yield socket, client
    finally:
        await socket.disconnect()


def leave(owner, client: Client) -> None:
    Membership.objects.filter(user=owner).delete()


def sign_out(owner, client: Client) -> None:
    client.post("/sign-out/")


def change_password(owner, client: Client) -> None:
    owner.set_password("another horse 9")
    owner.save()


@pytest.mark.parametrize("lose", [leave, sign_out, change_password])
async def test_a_socket_closes_when_its_person_leaves_signs_out_or_changes_the_password(
    async_db, workspace, session, owner, monkeypatch, lose
):
    monkeypatch.setattr(hub_module, "POLL_SECONDS", 0.1)
    async with signed_in(session, owner) as (socket, client):
        await in_thread(lose)(owner, client)
        assert await socket.closed() == 4401


@pytest.mark.parametrize("lose", [leave, sign_out, change_password])
async def test_a_person_who_left_or_signed_out_cannot_send_on_an_open_socket(
    async_db, workspace, session, owner, lose
):
    async with signed_in(session, owner) as (socket, client):
        await in_thread(lose)(owner, client)
        said = {"type": "user.message", "payload": {"text": "still me"}, "id": "x"}
        await socket.send_to(text_data=json.dumps(said))
        assert await socket.closed() == 4401
    assert await session.events.acount() == 1


async def test_the_number_of_viewers_is_limited_per_workspace(
    async_db, session, secret, foreign_workspace, monkeypatch
):
    monkeypatch.setattr(hub_module, "MAX_VIEWERS", 1)
    other = await in_thread(new_session)(foreign_workspace)
    others_key = await in_thread(key_for)(foreign_workspace)
    async with connected(session, secret):
        await joined(session)
        async with connected(session, secret) as second:
            assert await second.closed() == 4429
        async with connected(other, others_key):
            await joined(other)


async def test_a_consumer_that_is_killed_leaves_no_viewer(async_db, session, secret):
    socket = Socket(session, secret)
    await socket.connect()
    await joined(session)
    socket.future.cancel()
    await asyncio.gather(socket.future, return_exceptions=True)

    assert not hub().feeds


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
