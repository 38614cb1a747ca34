"""The WebSockets of an agent: each says that its canvas or its draft has a new revision.

The same rules as for sessions: it closes with 4000 + the status that HTTP would answer, revisions
after `?after=` are replayed in order, and whoever loses the right to read is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs
from uuid import UUID

import orjson
from django.db import Error

from agents.models import Agent
from config.faults import Invalid, NotFound, StreamUnavailable
from tenants.access import Principal, authorise
from tenants.group_ear import listening
from tenants.off_loop import read
from tenants.pumped import PumpedConsumer
from tenants.rights import renewed

T = TypeVar("T")

#: How often lost rings and lost rights are looked for.
LOOK_SECONDS = 10.0


class AgentConsumer(PumpedConsumer):
    """Sends one frame per revision of something that an agent has; what it is, is read over REST."""

    @property
    def agent_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["agent_id"]

    @property
    def group(self) -> str:
        """Whose rings it hears."""
        raise NotImplementedError

    async def send_news(self, cursor: int, known: int) -> tuple[int, int]:
        """Send what is after the cursor, and what else is not known yet."""
        raise NotImplementedError

    async def send_frames(self) -> None:
        cursor, known = self._after(), -1
        # Joined before reading: what is saved in between rings.
        async with listening(self.group) as hear:
            while True:
                await read_rows(self._find)
                cursor, known = await self.send_news(cursor, known)
                await hear(LOOK_SECONDS)

    def _find(self) -> None:
        """Raise unless this identity may, by now, read this agent."""
        workspace_id = authorise(renewed(authorised(self.principal)), "read")
        if not Agent.objects.for_workspace(workspace_id).filter(pk=self.agent_id).exists():
            raise NotFound

    def _after(self) -> int:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        text = query.get("after", ["0"])[-1]
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise Invalid("`after` is the number of a revision.")
        return int(text)

    async def send_body(self, body: dict[str, Any]) -> None:
        await self.send_in_time(orjson.dumps(body).decode())


def authorised(principal: Principal) -> Principal:
    """The identity, if there is one that may read at all."""
    authorise(principal, "read")
    return principal


async def read_rows(function: Callable[[], T]) -> T:
    try:
        return await read(function)
    except Error as error:
        raise StreamUnavailable from error
