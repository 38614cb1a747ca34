"""The worker processes: a django-q2 cluster that is fed with wake-ups, and what it does with them.

Guards let the cluster survive kills. Without them, a worker killed while it waits keeps the queue's
reader lock and wedges the cluster; a killed parent leaves orphans that continue to work; SIGTERM to
the process group loses tasks; a connection pool opened before a fork hangs in the child.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from functools import cache
from multiprocessing.reduction import ForkingPickler
from multiprocessing.synchronize import Event
from queue import Full
from typing import Any
from uuid import UUID

import psycopg
import structlog
from django.db import Error, connections
from django_q import cluster
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.queues import Queue

from core.db import connect, release_connection
from core.exceptions import Fault
from core.lease_host import owner_of
from core.pg_listen import subscribe
from orchestrator.engine.publisher import notify_viewers
from orchestrator.engine.runner import WorkflowHost
from orchestrator.engine.store import EXPIRE as EXPIRE_WORKFLOWS
from orchestrator.engine.waits import settle_child, settle_run
from sessions_app.lanes.host import LaneHost
from sessions_app.lanes.run_queue import EXPIRE_LEASES
from sessions_app.lanes.signals import WAKE_CHANNEL
from tenants.pulse import beat

log = structlog.get_logger(__name__)

#: How long one read waits, so that the process sees when the cluster stops.
LISTEN_SECONDS = 0.5


class NotifyBroker(ORM):
    """Stands for the notifications that the cluster's pusher reads itself. Nothing is stored."""

    def enqueue(self, task: object) -> None:
        raise Fault("This queue carries only wake-ups; use sessions_app.lanes.signals.wake.")

    def acknowledge(self, task_id: object) -> None:
        """Do nothing: the run queue knows what is done."""

    def queue_size(self) -> int:
        return 0

    def lock_size(self) -> int:
        return 0

    def info(self) -> str:
        return "NOTIFY"


def push_wake_ups(tasks: SafeQueue, stopping: Event, broker: NotifyBroker) -> None:
    """Pass wake-ups on to the workers as they are notified, until the cluster stops.

    It takes the place of django-q2's pusher, which signs and reads every task again. The thread that
    listens writes to the pipe itself, because handing them to another thread only adds its delay.
    """
    arrived: dict[str, None] = {}

    def pass_on() -> None:
        payloads = list(arrived)
        arrived.clear()
        for start in range(0, len(payloads), Conf.BULK):
            tasks.put(payloads[start : start + Conf.BULK])

    with subscribe(WAKE_CHANNEL, arrived.setdefault, after_batch=pass_on):
        while not stopping.wait(LISTEN_SECONDS):
            pass


# ── Serving wake-ups ─────────────────────────────────────────────────────────────────────────────


@cache
def lanes() -> LaneHost:
    """Return this process's lanes, created in the worker itself: threads do not survive a fork."""
    return LaneHost()


@cache
def workflows() -> WorkflowHost:
    """Return this process's workflows."""
    return WorkflowHost()


def wake_many(payloads: list[str]) -> None:
    """Serve the wake-ups that arrived together, in a worker process.

    A payload is a session's id, `KIND:ID` for a workflow, or a ping of the supervisor, which proves
    the whole path from NOTIFY to a worker.
    """
    if "ping" in payloads:
        beat("worker")
        release_connection()
    session_ids = []
    for payload in payloads:
        match payload.rpartition(":"):
            case "workflow", _, _:
                # The claim decides which workflow is served first, not the wake-up.
                workflows().wake()
            case "workflow-run", _, run_id:
                settle(settle_run, run_id)
            case "workflow-child", _, child_id:
                settle(settle_child, child_id)
            case "", _, session_id if session_id != "ping":
                session_ids.append(UUID(session_id))
    if session_ids:
        lanes().wake_many(session_ids)


def settle(settle_by: Callable[[UUID], UUID | None], id: str) -> None:
    """Settle the step that waits for this run or child. The supervisor repeats one that fails."""
    try:
        if workflow_id := settle_by(UUID(id)):
            notify_viewers([workflow_id])
    except (Fault, Error, ValueError):
        log.warning("settling_failed", id=id, exc_info=True)
    finally:
        release_connection()


# ── Guards ───────────────────────────────────────────────────────────────────────────────────────

PR_SET_PDEATHSIG = 1


class SafeQueue(Queue):
    """A queue that records which process holds the reader lock, to release it if that one dies.

    Only one process writes at a time: the pusher, and the sentinel once the pusher has ended.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.holder = multiprocessing.Value("i", 0, lock=False)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Write wake-ups to the pipe at once. A thread that writes them, as usual, only adds its delay.

        All that may wait fit into the pipe, so this does not block beyond the queue's limit.
        """
        if not isinstance(item, list):
            super().put(item, block, timeout)
            return
        if not self._sem.acquire(block, timeout):
            raise Full
        self._send_bytes(ForkingPickler.dumps(item))
        self.size.increment(1)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return what is for the cluster. Wake-ups are served here, without its work around a task."""
        if not block or timeout is not None:
            return super().get(block, timeout)
        while isinstance(item := self._read(), list):
            try:
                wake_many(item)
            except Exception:
                log.exception("wake_ups_failed", payloads=item)
        return item

    def _read(self) -> Any:
        with self._rlock:
            self.holder.value = os.getpid()
            data = self._recv_bytes()
            self._sem.release()
            self.holder.value = 0
        self.size.increment(-1)
        return ForkingPickler.loads(data)

    def release_of(self, pid: int) -> None:
        """Release the reader lock if this process died with it."""
        if self.holder.value == pid:
            self.holder.value = 0
            self._rlock.release()


class SafeSentinel(cluster.Sentinel):
    """A sentinel that frees what a dead worker held: the queue's lock and its leases."""

    def start(self) -> None:
        # Only the main process handles SIGTERM; it tells the sentinel, which drains the workers.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().start()

    def spawn_pusher(self) -> Any:
        return self.spawn_process(push_wake_ups, self.task_queue, self.event_out, self.broker)

    def reincarnate(self, process: Any) -> None:
        if process is not None and not process.is_alive():
            for queue in (self.task_queue, self.result_queue):
                queue.release_of(process.pid)
            if process in self.pool:
                self._expire_leases(process.pid)
        super().reincarnate(process)

    def _expire_leases(self, pid: int) -> None:
        """Let the supervisor recover the dead worker's work at once, not when its leases run out."""
        try:
            with connect() as outside_the_pool:
                for statement in (EXPIRE_LEASES, EXPIRE_WORKFLOWS):
                    outside_the_pool.execute(statement, [owner_of(pid)])
        except psycopg.Error:
            cluster.logger.exception("could not expire the leases of a dead worker")


def _after_fork() -> None:
    """Die with the parent, leave SIGTERM to the main process, and drop inherited pools."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for inherited in connections.all(initialized_only=True):
        inherited._connection_pools.clear()  # type: ignore[attr-defined]
        inherited.connection = None


def install() -> None:
    """Install the guards. Call it before the cluster is created."""
    cluster.Queue = SafeQueue
    cluster.Sentinel = SafeSentinel
    os.register_at_fork(after_in_child=_after_fork)
