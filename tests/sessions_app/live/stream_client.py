"""A test client of a session's stream, over the real consumer with real identities."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator

from agents.definitions import create_agent
from core.ids import uuid7
from sessions_app.consumers import websocket_urlpatterns
from sessions_app.live.hub import Viewer, hub
from sessions_app.live.publisher import Delta, publish_deltas
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Draft, Session, SessionEvent
from tenants.keys import issue_key
from tenants.models import User, Workspace
from tenants.sockets import SocketIdentity

SECONDS = 20
application = SocketIdentity(URLRouter(websocket_urlpatterns))


def new_session(workspace: Workspace) -> Session:
    agent = create_agent(
        workspace_id=workspace.pk, fields={"name": "Demo", "provider": "demo", "model": "demo"}
    )
    version = agent.versions.get()
    return Session.objects.create(workspace=workspace, agent=agent, agent_version=version)


def key_for(workspace: Workspace, scope: str = "run", by: User | None = None) -> str:
    owner = by or User.objects.filter(memberships__workspace=workspace).first()
    return issue_key(workspace_id=workspace.pk, name="t", scope=scope, created_by=owner).secret


def say(session: Session, *texts: str) -> int:
    """Append messages of a person in one commit and return the last seq."""
    messages = [
        NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": text}) for text in texts
    ]
    return append_events(session.pk, messages)


def finish_answer(session: Session, event_id: UUID, text: str) -> int:
    Draft.objects.filter(session=session).delete()
    answer = NewEvent(id=event_id, type=SessionEvent.Type.AGENT_MESSAGE, payload={"text": text})
    return append_events(session.pk, [answer])


def write_on(session: Session, event_id: UUID, offset: int, text: str) -> None:
    """Store and publish more text of a draft, as a worker does."""
    draft = Draft.objects.filter(session=session, event_id=event_id).first()
    Draft.objects.update_or_create(
        session=session,
        defaults={
            "event_id": event_id,
            "run_id": uuid7(),
            "epoch": session.lane_epoch,
            "text": (draft.text if draft else "")[:offset] + text,
        },
    )
    send_piece(session.pk, event_id, offset, text)


def send_piece(session_id: UUID, event_id: UUID, offset: int, text: str) -> None:
    publish_deltas(
        [Delta(session_id=session_id, event_id=event_id, run_id=None, offset=offset, text=text)]
    )


class Follower:
    """Handles frames as a page does: keeps stored events in order and the text of drafts."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.seqs: list[int] = []
        self.texts: dict[str, str] = {}
        self.stored: set[str] = set()
        self.late_deltas = 0

    def take(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        event_id = frame.get("metadata", {}).get("event_id")
        if frame.get("seq") is not None:
            self.seqs.append(frame["seq"])
            self.stored.add(event_id)
            if frame["type"] == "assistant":
                self.texts[event_id] = frame["content"]
        elif frame["type"] == "assistant":
            self.late_deltas += event_id in self.stored
            offset = frame["metadata"]["offset"]
            text = self.texts.get(event_id, "")
            assert offset <= len(text), "a delta left a gap"
            self.texts[event_id] = text[:offset] + frame["content"]

    @property
    def cursor(self) -> int:
        return self.seqs[-1] if self.seqs else 0


class Socket(WebsocketCommunicator):
    """A WebSocket client that feeds a follower."""

    def __init__(
        self,
        session: Session | UUID,
        secret: str,
        *,
        after: int | str = 0,
        follower: Follower | None = None,
        application: Any = application,
    ) -> None:
        session_id = session.pk if isinstance(session, Session) else session
        headers = [(b"x-api-key", secret.encode())] if secret else []
        path = f"/ws/sessions/{session_id}/?after={after}"
        super().__init__(application, path, headers=headers)
        self.follower = follower or Follower()

    async def frame(self) -> dict[str, Any]:
        frame = json.loads(await self.receive_from(timeout=SECONDS))
        self.follower.take(frame)
        return frame

    async def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read frames until one satisfies the condition."""
        async with asyncio.timeout(SECONDS):
            while not done(frame := await self.frame()):
                pass
        return frame

    async def until_seq(self, seq: int) -> None:
        if self.follower.cursor < seq:
            await self.until(lambda frame: frame.get("seq") == seq)

    async def closed(self) -> int:
        """Read until the socket closes and return its code."""
        async with asyncio.timeout(SECONDS):
            while True:
                message = await self.receive_output(timeout=SECONDS)
                if message["type"] == "websocket.close":
                    return message["code"]


@asynccontextmanager
async def connected(*args: Any, **kwargs: Any) -> AsyncIterator[Socket]:
    socket = Socket(*args, **kwargs)
    accepted, _ = await socket.connect(timeout=SECONDS)
    assert accepted
    try:
        yield socket
    finally:
        await socket.disconnect(timeout=SECONDS)


async def joined(session: Session) -> Viewer:
    """Wait until the only viewer of this session is live."""
    (viewer,) = await all_joined(session, 1)
    return viewer


async def all_joined(session: Session, count: int) -> list[Viewer]:
    """Wait until this many viewers of the session are live."""
    async with asyncio.timeout(20):
        while True:
            feed = hub().feeds.get(f"session.{session.pk}")
            viewers = [viewer for viewer in feed.viewers if viewer._is_live] if feed else []
            if len(viewers) == count:
                return viewers
            await asyncio.sleep(0.01)


def send_late(session: Session, event_id: UUID, text: str) -> None:
    """Send deltas of an answer without having stored a draft."""
    for offset in (0, len(text) // 2):
        send_piece(session.pk, event_id, offset, text[offset:])


def slow_reader(stuck: asyncio.Event) -> Any:
    """Wrap the application for a client that stops reading while `stuck` is set."""

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        async def wait_and_send(message: Any) -> None:
            await send(message)
            while stuck.is_set():
                await asyncio.sleep(0.01)

        await application(scope, receive, wait_and_send)

    return behind


in_thread = sync_to_async
