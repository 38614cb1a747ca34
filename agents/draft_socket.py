"""The WebSocket of a draft: says which parts were changed, or that it was published or thrown away."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.canvas import author_of
from agents.consumers import AgentConsumer, read_rows
from agents.drafts import group_name
from agents.models import AgentDraft, DraftChange

PAGE = 200


class DraftConsumer(AgentConsumer):
    """Sends one frame per changed part; the draft itself is read over REST."""

    @property
    def group(self) -> str:
        return group_name(self.agent_id)

    async def send_news(self, cursor: int, known: int) -> tuple[int, int]:
        while rows := await read_rows(partial(self._page, cursor)):
            for row in rows:
                await self.send_body(change_frame(row))
                cursor = row.revision
        revision = await read_rows(self._revision)
        if revision != known:
            # Publishing moves the draft on without a change of its own.
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
        """Whole revisions: a page never ends within one."""
        rows = DraftChange.objects.filter(agent=self.agent_id, revision__gt=cursor)
        last = rows.order_by("revision").values_list("revision", flat=True)[:PAGE]
        return list(rows.filter(revision__lte=max(last, default=0)).order_by("revision", "part"))


def change_frame(row: DraftChange) -> dict[str, Any]:
    """A part that is new. Its seq is the draft's revision."""
    return {
        "type": "draft",
        "phase": "change",
        "revision": row.revision,
        "part": row.part,
        "author": author_of(row),
        "metadata": {"agent_id": str(row.agent_id), "created_at": row.created_at.isoformat()},
        "seq": row.revision,
    }
