"""Hosts many lanes on the threads of one worker process, with one heartbeat for all of them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize
from queue import SimpleQueue
from uuid import NAMESPACE_OID, UUID, uuid5

import structlog
from django.conf import settings
from django.db import Error, connection

from config.faults import Fault, StaleEpoch
from sessions_app import lanes
from sessions_app.harness import run
from sessions_app.hearing import hear
from sessions_app.lanes import Claim
from sessions_app.stopping import StopSign
from sessions_app.wake import wake_many
from tenants.off_loop import let_go
from tenants.pulse import beat

log = structlog.get_logger(__name__)

STOP_CHANNEL = "switchyard_stop"


def owner_of(pid: int) -> UUID:
    """Who holds a lease: a process of one machine. Computable by whoever sees that process die."""
    return uuid5(NAMESPACE_OID, f"{socket.gethostname()}:{pid}")


class LaneHost:
    """All lanes that this process holds, each on a thread of its own."""

    def __init__(self) -> None:
        self.owner = owner_of(os.getpid())
        self._held: dict[UUID, tuple[Claim, StopSign]] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(settings.LANES_PER_WORKER)
        self._jobs: SimpleQueue[UUID] = SimpleQueue()
        self._idle = 0
        self._ending = threading.Event()
        for work in (self._beat, self._hear_stops):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        # Runs in multiprocessing's own exit, while threads and database still work.
        Finalize(None, self.drain, exitpriority=100)

    def wake_many(self, session_ids: list[UUID]) -> None:
        """Serve these sessions. A full process passes on what it cannot take, then waits for room."""
        for nth, session_id in enumerate(session_ids):
            if not self._slots.acquire(blocking=False):
                wake_many(session_ids[nth:])
                let_go()
                self._wait_for_room()
                return
            self._submit(session_id)

    def _wait_for_room(self) -> None:
        """Take nothing more from the queue while full, and say meanwhile that this is not death."""
        while not self._slots.acquire(timeout=settings.HEARTBEAT_SECONDS):
            beat("worker")
            let_go()
        self._slots.release()

    def _submit(self, session_id: UUID) -> None:
        self._jobs.put(session_id)
        with self._lock:
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name="lane", daemon=True).start()

    def _work(self) -> None:
        """Serve one session after another; threads are kept, as connections hang on them."""
        while True:
            session_id = self._jobs.get()
            try:
                self._serve(session_id)
            except StaleEpoch:
                log.info("lane_lost", session_id=str(session_id))
            except Exception:
                # Whatever it was: a thread that died of it would still be counted among the idle.
                log.exception("lane_failed", session_id=str(session_id))
            finally:
                let_go()
                with self._lock:
                    self._idle += 1
                self._slots.release()

    def _serve(self, session_id: UUID) -> None:
        """Run what is due in this lane, one run after the other."""
        claim = lanes.claim(session_id, self.owner)
        while claim and not self._ending.is_set():
            with self._holding(claim) as sign:
                claim = run(claim, self.owner, sign)
        if claim:
            lanes.release(claim, reason="shutdown")

    @contextmanager
    def _holding(self, claim: Claim) -> Iterator[StopSign]:
        """Renew its lease meanwhile, and let stops reach it.

        After a stop another thread may hold the lane for the next run already: that one stays.
        """
        held = (claim, StopSign())
        with self._lock:
            self._held[claim.session_id] = held
        try:
            yield held[1]
        finally:
            with self._lock:
                if self._held.get(claim.session_id) is held:
                    del self._held[claim.session_id]

    def _beat(self) -> None:
        """Renew every lease in one statement. What is no longer ours is told to stop."""
        while not self._ending.wait(settings.HEARTBEAT_SECONDS):
            with self._lock:
                held = dict(self._held)
            if not held:
                continue
            try:
                ours = lanes.heartbeat(self.owner, sorted(held))
            except Error:
                log.warning("heartbeat_failed", lanes=len(held))
                continue
            finally:
                let_go()
            for session_id, (claim, sign) in held.items():
                if ours.get(session_id) != claim.epoch and self._still(session_id, claim):
                    sign.give("fenced")

    def _still(self, session_id: UUID, claim: Claim) -> bool:
        with self._lock:
            return self._held.get(session_id, (None,))[0] == claim

    def _hear_stops(self) -> None:
        """Pass an interrupt on to the lane that it is for, as soon as it is committed."""
        hear(STOP_CHANNEL, self._stop, until=self._ending)

    def _stop(self, session_id: UUID) -> None:
        """The news may come late: who still holds the lane has begun since, and goes on."""
        with self._lock:
            claim, sign = self._held.get(session_id, (None, None))
        if claim is None or sign is None:
            return
        try:
            ours = lanes.heartbeat(self.owner, [session_id])
        except Error:
            log.warning("stop_not_looked_up", session_id=str(session_id))
            return  # the next beat tells
        finally:
            let_go()
        if ours.get(session_id) != claim.epoch:
            sign.give("interrupted")

    def drain(self) -> None:
        """Hand every run back to the queue: another process goes on where this one stops."""
        self._ending.set()
        with self._lock:
            held = list(self._held.values())
        for claim, sign in held:
            sign.give("shutdown")
            try:
                lanes.release(claim, reason="shutdown")
            except (Fault, Error):
                log.warning("lane_not_handed_back", session_id=str(claim.session_id))
        connection.close()
