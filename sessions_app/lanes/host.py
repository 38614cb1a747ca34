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

    def wake_many(self, session_ids: Sequence[UUID]) -> None:
        """Serve these sessions. A full process passes on what it cannot take, then waits for a slot."""
        for nth, session_id in enumerate(session_ids):
            if not self.submit(session_id):
                wake_many(session_ids[nth:])
                release_connection()
                self._wait_while_full()
                return

    def _wait_while_full(self) -> None:
        """Take nothing more from the queue, and keep giving signs of life meanwhile."""
        while not self.wait_for_slot(settings.HEARTBEAT_SECONDS):
            beat("worker")
            release_connection()

    def serve(self, session_id: UUID) -> None:
        """Run what is due in this lane, one run after the other."""
        try:
            claim = run_queue.claim(session_id, self.owner)
            while claim and not self.ending.is_set():
                sign = StopSignal()
                with self.holding(lease_of(claim, sign)):
                    claim = run(claim, self.owner, sign)
            if claim:
                self.release(claim)
        except StaleEpoch:
            log.info("lane_lost", session_id=str(session_id))

    def heartbeat(self, ids: Sequence[UUID]) -> dict[UUID, int]:
        return run_queue.heartbeat(self.owner, ids)

    def release(self, holder: Claim) -> None:
        run_queue.release(holder, reason="shutdown")

    def drain(self) -> None:
        super().drain()
        connection.close()


def lease_of(claim: Claim, sign: StopSignal) -> Lease[Claim]:
    return Lease(id=claim.session_id, epoch=claim.epoch, holder=claim, stop=sign.send)
