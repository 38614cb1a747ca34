"""All viewers of this process: a watch for each log they follow, and one slow look for all."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

import structlog
from django.db import Error

from config.faults import TooManyRequests, Unauthenticated
from sessions_app.reader import Log
from sessions_app.viewer import Viewer
from sessions_app.watch import Watch
from tenants.access import Principal
from tenants.off_loop import read
from tenants.rights import revoked

log = structlog.get_logger(__name__)

#: How often lost rings and lost rights are looked for.
LOOK_SECONDS = 10.0
#: Viewers that one workspace may have in one process.
MOST_VIEWERS = 2_000


class Hub:
    def __init__(self) -> None:
        self.watches: dict[str, Watch] = {}
        self._looking: asyncio.Task[None] | None = None

    def join(self, followed: Log, *, after: int, principal: Principal) -> Viewer:
        if self._count(principal) >= MOST_VIEWERS:
            raise TooManyRequests(retry_after=LOOK_SECONDS)
        watch = self.watches.get(followed.group)
        if watch is None:
            watch = self.watches[followed.group] = Watch(followed)
        viewer = Viewer(watch, after=after, principal=principal)
        watch.viewers.add(viewer)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_for_ever(), name="slow look")
        return viewer

    async def leave(self, viewer: Viewer) -> None:
        watch = viewer.watch
        watch.viewers.discard(viewer)
        if not watch.viewers:
            if self.watches.get(watch.log.group) is watch:
                del self.watches[watch.log.group]
            await watch.close()

    async def look(self) -> None:
        """Catch up where a ring was lost, and end viewers that lost their rights."""
        kinds: dict[type[Log], list[Watch]] = defaultdict(list)
        for watch in self.watches.values():
            kinds[type(watch.log)].append(watch)
        for kind, watches in kinds.items():
            heads = await read(kind.heads, [watch.log for watch in watches])
            for watch in watches:
                if heads.get(watch.log.group, 0) > watch.seen:
                    await watch.look()
        lost = await read(revoked, {viewer.principal for viewer in self._viewers()})
        for viewer in self._viewers():
            if viewer.principal in lost:
                viewer.drop(Unauthenticated())

    async def _look_for_ever(self) -> None:
        while self.watches:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Error as error:
                log.warning("slow_look_failed", error=str(error).strip())

    def _viewers(self) -> list[Viewer]:
        return [viewer for watch in self.watches.values() for viewer in watch.viewers]

    def _count(self, principal: Principal) -> int:
        return sum(v.principal.workspace_id == principal.workspace_id for v in self._viewers())


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of this process; strictly, of this event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())


@asynccontextmanager
async def watching(followed: Log, *, after: int, principal: Principal) -> AsyncIterator[Viewer]:
    """A viewer of this log, for as long as the block lasts."""
    here = hub()
    viewer = here.join(followed, after=after, principal=principal)
    try:
        await viewer.watch.opened()
        yield viewer
    finally:
        await here.leave(viewer)
