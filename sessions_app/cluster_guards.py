"""Makes a django-q2 cluster survive SIGKILL of any of its processes.

Stock behaviour, reproduced: a worker killed while it waits takes the queue's reader lock with it and
wedges the cluster; a killed parent leaves orphans that go on working; SIGTERM to the process group
loses tasks; a connection pool that was opened before a fork hangs in the child.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from multiprocessing.reduction import ForkingPickler
from typing import Any

import psycopg
from django.db import connections
from django_q import cluster
from django_q.queues import Queue

from sessions_app.host import owner_of
from sessions_app.lanes import EXPIRE
from sessions_app.statements import connect

PR_SET_PDEATHSIG = 1
#: Statements that free what a dead worker held, by its owner's id; apps to the right add theirs.
EXPIRING: list[bytes] = [EXPIRE]


class SafeQueue(Queue):
    """Remembers which process holds the reader lock, so that a dead holder's can be released."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.holder = multiprocessing.Value("i", 0, lock=False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not block or timeout is not None:
            return super().get(block, timeout)
        with self._rlock:
            self.holder.value = os.getpid()
            data = self._recv_bytes()
            self._sem.release()
            self.holder.value = 0
        self.size.increment(-1)
        return ForkingPickler.loads(data)

    def release_of(self, pid: int) -> None:
        """Release the lock if this process died with it."""
        if self.holder.value == pid:
            self.holder.value = 0
            self._rlock.release()


class SafeSentinel(cluster.Sentinel):
    """Frees what a dead worker held: the queue's lock, and its lanes."""

    def start(self) -> None:
        # Only the main process answers SIGTERM; it tells the sentinel, which drains the workers.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().start()

    def reincarnate(self, process: Any) -> None:
        if process is not None and not process.is_alive():
            for queue in (self.task_queue, self.result_queue):
                queue.release_of(process.pid)
            if process in self.pool:
                self._expire_lanes(process.pid)
        super().reincarnate(process)

    def _expire_lanes(self, pid: int) -> None:
        """The supervisor takes the dead worker's runs back at its next look, not a lease later."""
        try:
            with connect() as beside_the_pool:
                for statement in EXPIRING:
                    beside_the_pool.execute(statement, [owner_of(pid)])
        except psycopg.Error:
            cluster.logger.exception("could not expire the lanes of a dead worker")


def _in_every_child() -> None:
    """Die with the parent, leave SIGTERM to the main process, and forget inherited pools."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for inherited in connections.all(initialized_only=True):
        inherited._connection_pools.clear()  # type: ignore[attr-defined]
        inherited.connection = None


def install() -> None:
    """Put the guards in place, before the cluster is made."""
    cluster.Queue = SafeQueue
    cluster.Sentinel = SafeSentinel
    os.register_at_fork(after_in_child=_in_every_child)
