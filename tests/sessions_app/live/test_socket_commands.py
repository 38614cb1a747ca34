"""Tests of client commands on the socket: acknowledged, idempotent, validated, never fatal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from core.db import read
from core.exceptions import Forbidden, Unauthenticated
from core.throttling import buckets
from sessions_app.accept import accept_event
from sessions_app.consumers import MAX_COMMAND_LENGTH
from tenants.access import refresh_principal
from tenants.keys import find_key, revoke_key
from tenants.models import Membership, User
from tests.sessions_app.live.stream_client import connected, in_thread, key_for

MESSAGE: dict[str, Any] = {"type": "user.message", "payload": {"text": "Hello"}}
HELLO = MESSAGE | {"id": "c1"}


async def ask(socket, command) -> dict:
    """Send a command and read frames up to its response."""
    text = command if isinstance(command, str) else json.dumps(command)
    await socket.send_to(text_data=text)
    return await socket.until(lambda frame: frame["type"] in ("ack", "pong") or "code" in frame)


async def test_a_message_is_acknowledged_with_its_seq(async_db, session, secret):
    async with connected(session, secret) as socket:
        ack = await ask(socket, HELLO)
        await socket.until_seq(ack["seq"])

    event = await session.events.aget(seq=ack["seq"])
    assert ack["type"] == "ack"
    assert ack["id"] == "c1"
    assert (event.type, event.payload["text"]) == ("user.message", "Hello")
    assert ack["event_id"] == str(event.pk)
    assert ack["run_id"]


async def test_an_acknowledged_send_is_idempotent(async_db, session, secret):
    async with connected(session, secret) as socket:
        first = await ask(socket, HELLO)
        again = await ask(socket, HELLO)
        other = await ask(socket, HELLO | {"id": "c2"})
    async with connected(session, secret) as socket:
        after_reconnect = await ask(socket, HELLO)

    assert first == again == after_reconnect
    assert other["seq"] == first["seq"] + 1
    assert await session.events.acount() == 2


async def test_another_message_under_the_same_id_is_not_lost(async_db, session, secret):
    async with connected(session, secret) as socket:
        first = await ask(socket, HELLO)
        second = await ask(socket, HELLO | {"payload": {"text": "And now this"}})

    assert (second["type"], second["seq"]) == ("ack", first["seq"] + 1)


async def test_two_clients_may_use_the_same_id(async_db, workspace, session, secret):
    second = await in_thread(key_for)(workspace)
    async with connected(session, secret) as one, connected(session, second) as two:
        assert (await ask(one, HELLO))["seq"] != (await ask(two, HELLO))["seq"]


async def test_a_message_sent_on_the_socket_and_repeated_over_rest_is_stored_once(
    async_db, session, secret
):
    async with connected(session, secret) as socket:
        sent = await ask(socket, HELLO)

    def repeat() -> int:
        answer = APIClient(headers={"x-api-key": secret}).post(
            f"/api/v1/sessions/{session.pk}/messages/",
            HELLO["payload"],
            format="json",
            headers={"Idempotency-Key": HELLO["id"]},
        )
        return answer.json()["event"]["seq"]

    assert await in_thread(repeat)() == sent["seq"]
    assert await session.events.acount() == 1


async def test_the_other_user_events_are_accepted_too(async_db, session, secret):
    async with connected(session, secret) as socket:
        sent = await ask(socket, HELLO)
        edited = await ask(
            socket,
            {
                "type": "user.message_edited",
                "payload": {"seq": sent["seq"], "text": "Hello again"},
                "id": 7,
            },
        )
        stopped = await ask(socket, {"type": "user.interrupt", "id": "c3"})

    assert (edited["type"], edited["id"]) == ("ack", 7)
    assert stopped["type"] == "ack"
    types = [event.type async for event in session.events.order_by("seq")]
    assert types == ["user.message", "user.message_edited", "user.interrupt"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("{not json", "invalid"),
        ("[]", "invalid"),
        ('"text"', "invalid"),
        ('{"payload": {}}', "invalid"),
        ({"type": "user.message", "payload": 5, "id": "x"}, "invalid"),
        ({"type": ["user.message"], "id": "x"}, "invalid"),
        ({"type": "agent.message", "payload": {"text": "I am the agent"}, "id": "x"}, "invalid"),
        ({"type": "session.status_idle", "id": "x"}, "invalid"),
        ({"type": "nonsense", "id": "x"}, "invalid"),
        ({"type": "user.message", "payload": {}, "id": "x"}, "invalid"),
        ({"type": "user.message", "payload": {"text": " "}, "id": "x"}, "invalid"),
        (
            {"type": "user.message", "payload": {"text": "a"}, "on_busy": "wait", "id": "x"},
            "invalid",
        ),
        (
            {
                "type": "user.message",
                "payload": {"text": "a" * (MAX_COMMAND_LENGTH - 60)},
                "id": "x",
            },
            "invalid",
        ),
        ("x" * (MAX_COMMAND_LENGTH + 1), "bad_frame"),
    ],
)
async def test_invalid_input_gets_an_error_and_the_socket_stays_usable(
    async_db, session, secret, command, code
):
    async with connected(session, secret) as socket:
        error = await ask(socket, command)
        ack = await ask(socket, HELLO)

    assert (error["type"], error["code"]) == ("error", code)
    assert error["error"]
    assert error["id"] == ("x" if isinstance(command, dict) else None)
    assert ack["type"] == "ack"
    assert await session.events.acount() == 1


async def test_a_binary_frame_gets_an_error(async_db, session, secret):
    async with connected(session, secret) as socket:
        await socket.send_to(bytes_data=b"\x00\x01")
        assert (await socket.frame())["code"] == "bad_frame"
        assert (await ask(socket, HELLO))["type"] == "ack"


async def test_a_ping_is_answered(async_db, session, secret):
    async with connected(session, secret) as socket:
        assert await ask(socket, {"type": "ping", "id": 1}) == {"type": "pong", "id": 1}


async def test_a_read_only_key_cannot_send(async_db, workspace, session):
    reader = await in_thread(key_for)(workspace, "read")
    async with connected(session, reader) as socket:
        error = await ask(socket, HELLO)

    assert (error["code"], error["id"]) == ("forbidden", "c1")
    assert await session.events.acount() == 0


async def test_a_revoked_key_cannot_send_any_more(async_db, workspace, session, secret):
    key = await in_thread(find_key)(secret)
    assert key
    async with connected(session, secret) as socket:
        await ask(socket, HELLO)
        await in_thread(revoke_key)(workspace_id=workspace.pk, key_id=key.pk)
        await socket.send_to(text_data=json.dumps(HELLO | {"id": "c2"}))
        assert await socket.closed() == 4401

    assert await session.events.acount() == 1


async def test_a_person_sends_with_the_rights_they_have_now(
    async_db, workspace, session, owner, principal
):
    membership = Membership.objects.filter(user=owner)
    await in_thread(membership.update)(role="viewer")
    with pytest.raises(Forbidden):
        await read(accept_event, await read(refresh_principal, principal), session.pk, **MESSAGE)

    await in_thread(User.objects.filter(pk=owner.pk).update)(is_active=False)
    with pytest.raises(Unauthenticated):
        await read(refresh_principal, principal)


async def test_a_flood_is_throttled_and_the_socket_stays_usable(
    async_db, session, secret, settings
):
    settings.REQUESTS_PER_MINUTE = 60
    buckets.empty()
    async with connected(session, secret) as socket:
        answers = [await ask(socket, {"type": "nonsense", "id": n}) for n in range(60)]
        buckets.empty()
        ack = await ask(socket, HELLO)

    assert answers[-1]["code"] == "throttled"
    assert ack["type"] == "ack"
