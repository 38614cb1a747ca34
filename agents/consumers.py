"""The WebSockets of an agent, which announce new revisions of its canvas and of its draft.

As for sessions: a socket closes with 4000 + the status that HTTP would answer, revisions after
`?after=` are replayed in order, and a viewer who loses the right to read is disconnected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

import orjson
from channels.layers import get_channel_layer
from django.db import Error
from django.urls import path
from pydantic import Field, ValidationError

from agents.canvas.revisions import author_of, canvas_group
from agents.drafts import draft_group
from agents.models import Agent, AgentDraft, Canvas, CanvasRevision, DraftChange
from core.channel_layer import subscription
from core.db import read
from core.exceptions import Invalid
from core.validation import STORABLE, Input
from sessions_app.exceptions import StreamUnavailable
from tenants.access import authorise, refresh_principal
from tenants.sockets import PumpedConsumer

T = TypeVar("T")

#: How often to check for lost notifications and lost permissions.
CHECK_SECONDS = 10.0


class AgentConsumer(PumpedConsumer):
    """Sends one frame per revision of an agent's canvas or draft, whose content is read over REST."""

    #: Whether the viewer was allowed to read this agent when it was last checked.
    _is_admitted = False

    @property
    def agent_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["agent_id"]

    @property
    def group(self) -> str:
        """Return the channel group to subscribe to."""
        raise NotImplementedError

    async def send_news(self, cursor: int, known: int) -> tuple[int, int]:
        """Send the revisions after the cursor, and the state if it is not the known one."""
        raise NotImplementedError

    async def send_frames(self) -> None:
        cursor, known = self._after(), -1
        # Subscribed before reading, so that no save in between is missed.
        async with subscription(self.group) as wait:
            while True:
                await read_rows(self._check_access)
                self._is_admitted = True
                cursor, known = await self.send_news(cursor, known)
                due = monotonic() + CHECK_SECONDS
                # Presence changes often and needs no rows.
                while (news := await wait(max(0.0, due - monotonic()))) and news[
                    "type"
                ] == PRESENCE:
                    await self.send_body(news["frame"])

    def _check_access(self) -> None:
        """Raise unless the viewer may still read this agent."""
        authorise(self.principal, "read")
        workspace_id = authorise(refresh_principal(self.principal), "read")
        Agent.objects.for_workspace(workspace_id).find(pk=self.agent_id)

    def _after(self) -> int:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        text = query.get("after", ["0"])[-1]
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise Invalid("`after` must be the number of a revision.")
        return int(text)

    async def send_body(self, body: dict[str, Any]) -> None:
        await self.send_in_time(orjson.dumps(body).decode())


async def read_rows(function: Callable[[], T]) -> T:
    try:
        return await read(function)
    except Error as error:
        raise StreamUnavailable from error


PAGE = 200
PRESENCE = "canvas.presence"
#: How many presence messages of one viewer are passed on in this many seconds.
MOST_PRESENCE, PRESENCE_SECONDS = 30, 10.0


class PresenceInput(Input):
    """What a window says of itself: that it is here, and which node it shows."""

    type: Literal["presence"]
    window: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{8,64}$")]
    node: Annotated[str, Field(max_length=64), STORABLE] | None = None
    word: Literal["hello", "here", "bye"]


class CanvasConsumer(AgentConsumer):
    """Sends one frame per canvas revision; the graph itself is read over REST.

    It also passes on who else has the canvas open, which is not stored.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._said: list[float] = []

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Pass on presence; answer every other message with a pong."""
        said = read_presence(text_data or "")
        if said is None or not self._is_admitted or not self._takes_presence():
            await super().receive(text_data, bytes_data)
            return
        frame = {
            "type": "canvas",
            "phase": "presence",
            "window": said.window,
            "name": self.principal.user.display_name if self.principal.user else "A program",
            "node": said.node,
            "word": said.word,
            "seq": None,
        }
        layer = get_channel_layer()
        await layer.group_send(self.group, {"type": PRESENCE, "frame": frame})

    def _takes_presence(self) -> bool:
        """Return whether this viewer has not said too much lately."""
        now = monotonic()
        self._said = [at for at in self._said if now - at < PRESENCE_SECONDS]
        if len(self._said) >= MOST_PRESENCE:
            return False
        self._said.append(now)
        return True

    @property
    def group(self) -> str:
        return canvas_group(self.agent_id)

    async def send_news(self, cursor: int, known: int) -> tuple[int, int]:
        while rows := await read_rows(partial(self._page, cursor)):
            for row in rows:
                await self.send_body(revision_frame(row))
                cursor = row.number
        canvas = await read_rows(lambda: Canvas.objects.filter(agent=self.agent_id).first())
        published = (canvas.published if canvas else None) or 0
        if published != known:
            await self.send_body(state_frame(self.agent_id, canvas))
        return cursor, published

    def _page(self, cursor: int) -> list[CanvasRevision]:
        rows = CanvasRevision.objects.filter(agent=self.agent_id, number__gt=cursor)
        return list(rows.defer("nodes", "edges").order_by("number")[:PAGE])


def read_presence(text: str) -> PresenceInput | None:
    """Return a presence message, or None if it is another or no valid message."""
    try:
        return PresenceInput.model_validate_json(text[:1_000])
    except ValidationError:
        return None


def revision_frame(row: CanvasRevision) -> dict[str, Any]:
    """Describe a new revision and its author. Its seq is its number."""
    return {
        "type": "canvas",
        "phase": "revision",
        "revision": row.number,
        "author": author_of(row),
        "metadata": {"agent_id": str(row.agent_id), "created_at": row.created_at.isoformat()},
        "seq": row.number,
    }


def state_frame(agent_id: UUID, canvas: Canvas | None) -> dict[str, Any]:
    """Describe which revision is newest and which is published."""
    at = canvas.published_at if canvas else None
    return {
        "type": "canvas",
        "phase": "state",
        "revision": canvas.revision if canvas else 0,
        "published_revision": canvas.published if canvas else None,
        "metadata": {"agent_id": str(agent_id), "published_at": at and at.isoformat()},
        "seq": None,
    }


class DraftConsumer(AgentConsumer):
    """Sends one frame per changed part of a draft; the draft itself is read over REST."""

    @property
    def group(self) -> str:
        return draft_group(self.agent_id)

    async def send_news(self, cursor: int, known: int) -> tuple[int, int]:
        while rows := await read_rows(partial(self._page, cursor)):
            for row in rows:
                await self.send_body(change_frame(row))
                cursor = row.revision
        revision = await read_rows(self._revision)
        if revision != known:
            # Publishing makes a revision of the draft without a change.
            await self.send_body(
                {
                    "type": "draft",
                    "phase": "state",
                    "revision": revision,
                    "metadata": {"agent_id": str(self.agent_id)},
                    "seq": None,
                }
            )
        return max(cursor, revision), revision

    def _revision(self) -> int:
        rows = AgentDraft.objects.filter(agent=self.agent_id)
        return rows.values_list("revision", flat=True).first() or 0

    def _page(self, cursor: int) -> list[DraftChange]:
        """Return a page of whole revisions: it never ends inside one."""
        rows = DraftChange.objects.filter(agent=self.agent_id, revision__gt=cursor)
        last = rows.order_by("revision").values_list("revision", flat=True)[:PAGE]
        return list(rows.filter(revision__lte=max(last, default=0)).order_by("revision", "part"))


def change_frame(row: DraftChange) -> dict[str, Any]:
    """Describe a changed part. Its seq is the draft's revision."""
    return {
        "type": "draft",
        "phase": "change",
        "revision": row.revision,
        "part": row.part,
        "author": author_of(row),
        "metadata": {"agent_id": str(row.agent_id), "created_at": row.created_at.isoformat()},
        "seq": row.revision,
    }


websocket_urlpatterns = [
    path("ws/agents/<uuid:agent_id>/canvas/", CanvasConsumer.as_asgi(), name="canvas_socket"),
    path("ws/agents/<uuid:agent_id>/draft/", DraftConsumer.as_asgi(), name="draft_socket"),
]
