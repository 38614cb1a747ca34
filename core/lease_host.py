"""A host of leases: threads of one process that hold rows, renewed by one heartbeat for all of them.

A subclass says how a job claims and works on its rows, how leases are renewed and how one is given
back. The epoch of a lease is the fence: once the row has a higher one, another holder owns it.
"""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Generic, TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

import structlog
from django.conf import settings
from django.db import Error

from core.db import release_connection
from core.exceptions import Fault
from core.pg_listen import subscribe

log = structlog.get_logger(__name__)

Job = TypeVar("Job")
Holder = TypeVar("Holder")


def owner_of(pid: int) -> UUID:
    """Return the lease owner of a process of this machine, so that others can free what it held."""
    return uuid5(NAMESPACE_OID, f"{socket.gethostname()}:{pid}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Lease(Generic[Holder]):
    """The right to work on one row until its epoch is passed."""

    id: UUID
    epoch: int
    #: Whatever works under the lease.
    holder: Holder
    #: Tell the holder to stop, with the reason. Only the first call counts.
    stop: Callable[[str], object]


class LeaseHost(ABC, Generic[Job, Holder]):
    """All leases of this process, each worked on by a separate thread."""

    #: What a lease is called in the log and in the names of threads.
    name: str
    #: The channel on which the database notifies that a row was taken away, and the reason to give.
    stop_channel: str
    stop_reason: str

    def __init__(self, slots: int) -> None:
        self._prepare(owner_of(os.getpid()), slots)
        for work in (self._renew_leases, self._follow_stops):
            self.start_thread(work)
        # Runs in multiprocessing's own exit, while threads and database still work.
        Finalize(None, self.drain, exitpriority=100)

    def _prepare(self, owner: UUID, slots: int) -> None:
        self.owner = owner
        #: Set while at least one lease is held, and once the process ends.
        self.busy = threading.Event()
        self.ending = threading.Event()
        self._leases: dict[UUID, Lease[Holder]] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(slots)
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._idle = 0
        #: Ids of rows that were taken away; None when the process ends.
        self._stops: SimpleQueue[str | None] = SimpleQueue()

    # ── What a subclass says ─────────────────────────────────────────────────────────────────

    @abstractmethod
    def serve(self, job: Job) -> None:
        """Claim and work on what the job asks for, each row within `holding`."""

    @abstractmethod
    def heartbeat(self, ids: Sequence[UUID]) -> dict[UUID, int]:
        """Renew these leases in one statement. Return the epoch of each that is still held."""

    @abstractmethod
    def release(self, holder: Holder) -> None:
        """Give the row back to its queue, because this process ends."""

    # ── Jobs and their threads ───────────────────────────────────────────────────────────────

    def submit(self, job: Job) -> bool:
        """Serve the job on a thread. Return False when the process has no slot for it."""
        if not self._slots.acquire(blocking=False):
            return False
        self._jobs.put(job)
        with self._lock:
            if self._idle:
                self._idle -= 1
                return True
        threading.Thread(target=self._work, name=self.name, daemon=True).start()
        return True

    def wait_for_slot(self, seconds: float) -> bool:
        """Wait until a slot is free, without taking it."""
        if not self._slots.acquire(timeout=seconds):
            return False
        self._slots.release()
        return True

    def start_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"{self.name} {work.__name__}", daemon=True).start()

    def _work(self) -> None:
        """Serve one job after another. Threads are kept, because connections belong to them."""
        while True:
            job = self._jobs.get()
            try:
                self.serve(job)
            except Exception:
                # A thread that died of it would still be counted among the idle ones.
                log.exception("job_failed", host=self.name, job=str(job))
            finally:
                release_connection()
                with self._lock:
                    self._idle += 1
                self._slots.release()

    # ── Leases ───────────────────────────────────────────────────────────────────────────────

    @property
    def leases(self) -> list[Lease[Holder]]:
        with self._lock:
            return list(self._leases.values())

    @contextmanager
    def holding(self, lease: Lease[Holder]) -> Iterator[None]:
        """Renew the lease while the block runs, and pass on a stop.

        A thread of this process that held the row before has lost it, and is told to stop.
        """
        with self._lock:
            older = self._leases.get(lease.id)
            self._leases[lease.id] = lease
            self.busy.set()
        if older:
            older.stop("fenced")
        try:
            yield
        finally:
            with self._lock:
                # Another thread may hold the row again already: its lease stays.
                if self._leases.get(lease.id) is lease:
                    del self._leases[lease.id]
                if not self._leases and not self.ending.is_set():
                    self.busy.clear()

    def _renew_leases(self) -> None:
        """Renew every lease in one statement. Holders that lost theirs are told to stop."""
        while not self.ending.wait(settings.HEARTBEAT_SECONDS):
            held = {lease.id: lease for lease in self.leases}
            if not held:
                continue
            try:
                epochs = self.heartbeat(sorted(held))
            except Error:
                log.warning("heartbeat_failed", host=self.name, leases=len(held))
                continue
            finally:
                release_connection()
            for id, lease in held.items():
                if epochs.get(id) != lease.epoch:
                    lease.stop("fenced")

    def _follow_stops(self) -> None:
        with subscribe(self.stop_channel, self._stops.put):
            while (id := self._stops.get()) is not None:
                with suppress(ValueError):
                    self.stop(UUID(id))

    def stop(self, id: UUID) -> None:
        """Stop the holder of this row if it lost it. The news may be older than the lease."""
        with self._lock:
            lease = self._leases.get(id)
        if lease is None:
            return
        try:
            epochs = self.heartbeat([id])
        except Error:
            log.warning("stop_not_looked_up", host=self.name, id=str(id))
            return  # the next heartbeat finds out
        finally:
            release_connection()
        if epochs.get(id) != lease.epoch:
            lease.stop(self.stop_reason)

    def drain(self) -> None:
        """Give every row back to its queue: another process continues where this one stops."""
        self.ending.set()
        self.busy.set()
        self._stops.put(None)
        for lease in self.leases:
            lease.stop("shutdown")
            try:
                self.release(lease.holder)
            except (Fault, Error):
                log.warning("lease_not_released", host=self.name, id=str(lease.id))
