"""The WebSocket of a workspace's list of workflows: says that it changed, never how.

The first frame and every other one is `{"type": "workflows"}`: read the list again. Changes that come
close together are one frame. It closes with 4000 + the status that HTTP would answer, as the socket
of approvals does. `{"type": "ping"}` is answered by `pong`.
"""

from __future__ import annotations

import asyncio

from orchestrator.engine.ringing import list_group
from sessions_app.encoding import encode
from tenants.access import Principal, authorise
from tenants.group_ear import listening
from tenants.off_loop import read
from tenants.pumped import PumpedConsumer
from tenants.rights import renewed

#: How often lost rights are looked for.
LOOK_SECONDS = 10.0
#: A busy workspace changes many times a second; nobody reads a list so often.
GATHER_SECONDS = 0.5


class WorkflowListConsumer(PumpedConsumer):
    """Joins the group before it says the first word: what changes in between rings."""

    async def send_frames(self) -> None:
        workspace_id = authorise(self.principal, "read")
        async with listening(list_group(workspace_id)) as hear:
            await self.send_in_time(encode({"type": "workflows"}))
            while True:
                rung = await hear(LOOK_SECONDS)
                if rung is None:
                    await read(_still_reads, self.principal)
                    continue
                await asyncio.sleep(GATHER_SECONDS)
                while await hear(0) is not None:
                    pass
                await self.send_in_time(encode({"type": "workflows"}))


def _still_reads(principal: Principal) -> None:
    authorise(renewed(principal), "read")
