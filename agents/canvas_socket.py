"""The WebSocket of a canvas: says that there is a new revision, or that one was published."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from agents.canvas import author_of, group_name
from agents.consumers import AgentConsumer, read_rows
from agents.models import Canvas, CanvasRevision

PAGE = 200


class CanvasConsumer(AgentConsumer):
    """Sends one frame per revision; the graph itself is read over REST."""

    @property
    def group(self) -> str:
        return group_name(self.agent_id)

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


def revision_frame(row: CanvasRevision) -> dict[str, Any]:
    """A revision that is new, and who wrote it. Its seq is its number."""
    return {
        "type": "canvas",
        "phase": "revision",
        "revision": row.number,
        "author": author_of(row),
        "metadata": {"agent_id": str(row.agent_id), "created_at": row.created_at.isoformat()},
        "seq": row.number,
    }


def state_frame(agent_id: UUID, canvas: Canvas | None) -> dict[str, Any]:
    """Which revision is the draft and which is published."""
    at = canvas.published_at if canvas else None
    return {
        "type": "canvas",
        "phase": "state",
        "revision": canvas.revision if canvas else 0,
        "published_revision": canvas.published if canvas else None,
        "metadata": {"agent_id": str(agent_id), "published_at": at and at.isoformat()},
        "seq": None,
    }
