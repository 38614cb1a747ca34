"""Tests of the approvals socket: the pending count and changes, only for the own workspace."""

from __future__ import annotations

import asyncio

from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator

from sessions_app import consumers
from sessions_app.approvals.approvals import announce
from sessions_app.models import Session
from tenants.access import principal_of_user
from tenants.keys import find_key, revoke_key
from tests.conftest import add_member
from tests.sessions_app.live.stream_client import application, in_thread, key_for
from tests.sessions_app.waiting_calls import deny, parked

SECONDS = 20


class Inbox(WebsocketCommunicator):
    def __init__(self, secret: str) -> None:
        super().__init__(application, "/ws/approvals/", headers=[(b"x-api-key", secret.encode())])

    async def frame(self) -> dict:
        return await self.receive_json_from(timeout=SECONDS)


async def closed(socket: Inbox) -> int:
    assert (await socket.connect(timeout=SECONDS))[0]
    return (await socket.receive_output(timeout=SECONDS))["code"]


def ask(session: Session) -> list:
    asked = parked(session, 2)
    announce(asked[:1])
    return asked


async def test_a_viewer_is_told_about_approvals_of_its_own_workspace_only(
    async_db, session, secret, principal, foreign_workspace
):
    theirs = Inbox(await in_thread(key_for)(foreign_workspace))
    async with asyncio.timeout(SECONDS):
        socket = Inbox(secret)
        assert (await socket.connect())[0]
        assert (await theirs.connect())[0]
        assert await socket.frame() == {"type": "approvals", "pending": 0, "approval": None}
        await theirs.frame()
        asked = await in_thread(ask)(session)
        made = await socket.frame()
        await in_thread(deny)(asked[0], principal)
        answered = await socket.frame()

    assert (made["pending"], made["approval"]["id"]) == (2, str(asked[0].pk))
    assert made["approval"]["input"] == {"command": "echo 0"}
    assert (answered["pending"], answered["approval"]["status"]) == (1, "denied")
    assert await theirs.receive_nothing()
    for one in (socket, theirs):
        await one.disconnect()
    await get_channel_layer().close()


async def test_polling_makes_up_for_a_lost_notification_and_closes_the_socket_of_a_revoked_key(
    async_db, session, secret, monkeypatch
):
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.05)
    socket = Inbox(secret)
    assert (await socket.connect())[0]
    await socket.frame()
    await in_thread(parked)(session, 3)

    assert (await socket.frame())["pending"] == 3
    await socket.send_json_to({"type": "ping"})
    assert await socket.frame() == {"type": "pong"}
    key = await in_thread(find_key)(secret)
    await in_thread(revoke_key)(workspace_id=key.workspace_id, key_id=key.pk)
    assert (await socket.receive_output(timeout=SECONDS))["code"] == 4401
    await get_channel_layer().close()


async def test_a_socket_with_an_unknown_key_is_closed(async_db):
    assert await closed(Inbox("sy_nobody")) == 4401


def test_a_viewer_sees_no_secrets(session, workspace):
    (asked,) = parked(session)
    type(asked).objects.filter(pk=asked.pk).update(input={"command": "x --token=abcdef"})
    viewer = principal_of_user(add_member(workspace, "viewer"), workspace.pk)

    shown = consumers._approvals_frame(viewer, asked.pk)

    assert shown["approval"]["input"] == {"command": "x --token=[removed]"}
