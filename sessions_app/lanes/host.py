"""Runs the lanes of sessions on the threads of one worker process."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection

from core.db import release_connection
from core.exceptions import StaleEpoch
from core.lease_host import Lease, LeaseHost
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Claim
from sessions_app.lanes.signals import StopSignal, wake_many
from tenants.pulse import beat

log = structlog.get_logger(__name__)

STOP_CHANNEL = "switchyard_stop"


class LaneHost(LeaseHost[UUID, Claim]):
    """The lanes that this process holds. A job is the id of a session."""

    name = "lane"
    stop_channel = STOP_CHANNEL
    stop_reason = "interrupted"

    def __init__(self) -> None:
        super().__init__(settings.LANES_PER_WORKER)

    def _prepare(self, owner: UUID, slots: int) -> None:
        super()._prepare(owner, slots)
        self._lanes, self._taken = slots, 0
        #: The workspace of each session that has a slot here, as far as it is known.
        self._workspaces: dict[UUID, UUID] = {}
        #: Sessions of workspaces that have their share, in order, until one of their lanes is free.
        self._deferred: dict[UUID, dict[UUID, None]] = {}

    @property
    def share(self) -> int:
        """How many lanes of this process one workspace may hold: a quarter is left for others."""
        return self._lanes - max(1, self._lanes // 4)

    def wake_many(self, session_ids: Sequence[UUID]) -> None:
        """Serve these sessions. A full process passes on what it cannot take, then waits for a slot."""
        admitted = self._admit(session_ids)
        for nth, session_id in enumerate(admitted):
            if not self.submit(session_id):
                wake_many(admitted[nth:])
                release_connection()
                self._wait_while_full()
                return

    def _admit(self, session_ids: Sequence[UUID]) -> Sequence[UUID]:
        """Return the sessions that may have a slot now, and keep the others until they may.

        While less than half of the process is in use, nothing is looked up.
        """
        with self._lock:
            if self._taken + len(session_ids) <= self._lanes // 2:
                return session_ids
        owners = run_queue.workspaces_of(session_ids)
        release_connection()
        with self._lock:
            return [one for one in session_ids if self._may_run(one, owners.get(one))]

    def _may_run(self, session_id: UUID, workspace_id: UUID | None) -> bool:
        if workspace_id is None or session_id in self._workspaces:
            return True
        if sum(one == workspace_id for one in self._workspaces.values()) >= self.share:
            self._deferred.setdefault(workspace_id, {})[session_id] = None
            return False
        self._workspaces[session_id] = workspace_id
        return True

    def submit(self, job: UUID) -> bool:
        with self._lock:
            self._taken += 1
        if super().submit(job):
            return True
        with self._lock:
            self._taken -= 1
            self._workspaces.pop(job, None)
        return False

    def _wait_while_full(self) -> None:
        """Take nothing more from the queue, and keep giving signs of life meanwhile."""
        while not self.wait_for_slot(settings.HEARTBEAT_SECONDS):
            beat("worker")
            release_connection()

    def serve(self, session_id: UUID) -> None:
        """Run what is due in this lane, then in those of its workspace that waited for their turn."""
        following: UUID | None = session_id
        try:
            while following and not self.ending.is_set():
                try:
                    self._run_lane(following)
                finally:
                    following = self._next_of_workspace(following)
        finally:
            with self._lock:
                self._taken -= 1
                if following:
                    self._workspaces.pop(following, None)

    def _run_lane(self, session_id: UUID) -> None:
        """Run what is due in this lane, one run after the other."""
        try:
            claim = run_queue.claim(session_id, self.owner)
            if claim and claim.loaded:
                with self._lock:
                    self._workspaces[session_id] = UUID(claim.loaded.facts["workspace_id"])
            while claim and not self.ending.is_set():
                sign = StopSignal()
                with self.holding(lease_of(claim, sign)):
                    claim = run(claim, self.owner, sign)
            if claim:
                self.release(claim)
        except StaleEpoch:
            log.info("lane_lost", session_id=str(session_id))

    def _next_of_workspace(self, session_id: UUID) -> UUID | None:
        """Give back the share of a session. Return a session of its workspace that waits for one."""
        with self._lock:
            workspace_id = self._workspaces.pop(session_id, None)
            waiting = self._deferred.get(workspace_id) if workspace_id else None
            if not waiting or workspace_id is None:
                return None
            following = next(iter(waiting))
            del waiting[following]
            if not waiting:
                del self._deferred[workspace_id]
            self._workspaces[following] = workspace_id
            return following

    def heartbeat(self, ids: Sequence[UUID]) -> dict[UUID, int]:
        return run_queue.heartbeat(self.owner, ids)

    def release(self, holder: Claim) -> None:
        run_queue.release(holder, reason="shutdown")

    def drain(self) -> None:
        super().drain()
        connection.close()


def lease_of(claim: Claim, sign: StopSignal) -> Lease[Claim]:
    return Lease(id=claim.session_id, epoch=claim.epoch, holder=claim, stop=sign.send)
