"""Hosts workflows on the threads of one worker process, with one heartbeat for all of them."""

from __future__ import annotations

import os
import threading
import time
from multiprocessing.util import Finalize
from queue import SimpleQueue
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error

from config.faults import Fault
from orchestrator.engine import store
from orchestrator.engine.control import Parked
from orchestrator.engine.definition import known_versions
from orchestrator.engine.pen import FOLD_SECONDS
from orchestrator.engine.ringing import Ringer
from orchestrator.engine.runner import Runner
from orchestrator.engine.statements import use_hot_connections
from sessions_app.hearing import hear
from sessions_app.host import owner_of
from sessions_app.stopping import StopSign
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)

STOP_CHANNEL = "switchyard_workflow_stop"


class WorkflowHost:
    """All workflows that this process goes on with, each on a thread of its own."""

    def __init__(self) -> None:
        self.owner = owner_of(os.getpid())
        self._ringer = Ringer()
        self._held: dict[UUID, Runner] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(settings.WORKFLOWS_PER_WORKER)
        self._jobs: SimpleQueue[None] = SimpleQueue()
        self._idle = 0
        self._busy = threading.Event()
        self._ending = threading.Event()
        use_hot_connections()
        for work in (self._beat, self._hear_stops, self._flush):
            threading.Thread(target=work, name=f"workflows {work.__name__}", daemon=True).start()
        # Runs in multiprocessing's own exit, while threads and database still work.
        Finalize(None, self.drain, exitpriority=100)

    def wake(self) -> None:
        """Look for work on one more thread. A full process looks by itself when it has room."""
        if not self._slots.acquire(blocking=False):
            return
        self._jobs.put(None)
        with self._lock:
            if self._idle:
                self._idle -= 1
                return
        threading.Thread(target=self._work, name="workflow", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()
            try:
                while not self._ending.is_set() and self._serve():
                    pass
            except Exception:
                # Whatever it was: the thread is needed for the next workflow.
                log.exception("workflow_failed")
            finally:
                let_go()
                with self._lock:
                    self._idle += 1
                self._slots.release()

    def _serve(self) -> bool:
        """Go on with one workflow that is due, if any."""
        claimed = store.claim(self.owner, known_versions())
        if claimed is None:
            return False
        self._ringer.ring(claimed)
        runner = Runner(claimed, StopSign(), self._ringer.ring)
        self._hold(runner)
        try:
            runner.run()
        finally:
            with self._lock:
                if self._held.get(claimed.id) is runner:
                    del self._held[claimed.id]
                if not self._held:
                    self._busy.clear()
        return True

    def _hold(self, runner: Runner) -> None:
        """Renew its lease from now on. Who had the workflow here before has lost it, and is told."""
        with self._lock:
            older = self._held.get(runner.claimed.id)
            self._held[runner.claimed.id] = runner
            self._busy.set()
        if older:
            older.sign.give("fenced")

    def _runners(self) -> list[Runner]:
        with self._lock:
            return list(self._held.values())

    def _flush(self) -> None:
        """Write the ends of steps whose workflow takes its time before the next."""
        while not self._ending.is_set():
            self._busy.wait()
            time.sleep(FOLD_SECONDS)
            for runner in self._runners():
                try:
                    runner.flush(older_than=FOLD_SECONDS)
                except Parked:
                    continue  # its own thread will hear so too
        let_go()

    def _beat(self) -> None:
        """Renew every lease in one statement. What is no longer ours is told to stop."""
        while not self._ending.wait(settings.HEARTBEAT_SECONDS):
            held = {runner.claimed.id: runner for runner in self._runners()}
            if not held:
                continue
            try:
                ours = store.heartbeat(self.owner, sorted(held))
            except Error:
                log.warning("heartbeat_failed", workflows=len(held))
                continue
            for workflow_id, runner in held.items():
                if ours.get(workflow_id) != runner.claimed.epoch:
                    runner.sign.give("fenced")

    def _hear_stops(self) -> None:
        """Tell a body at once that nobody waits for it any more."""
        hear(STOP_CHANNEL, self._stop, until=self._ending)

    def _stop(self, workflow_id: UUID) -> None:
        """The news may come late: who still holds the workflow has begun since, and goes on."""
        with self._lock:
            runner = self._held.get(workflow_id)
        if runner is None:
            return
        try:
            ours = store.heartbeat(self.owner, [workflow_id])
        except Error:
            log.warning("stop_not_looked_up", workflow_id=str(workflow_id))
            return  # the next beat tells
        if ours.get(workflow_id) != runner.claimed.epoch:
            runner.sign.give("stopped")

    def drain(self) -> None:
        """Hand every workflow back to the queue: another process goes on where this one stops."""
        self._ending.set()
        self._busy.set()
        for runner in self._runners():
            runner.sign.give("shutdown")
            try:
                runner.flush()
                store.release(runner.claimed, "shutdown")
            except (Parked, Fault, Error):
                log.warning("workflow_not_handed_back", workflow_id=str(runner.claimed.id))
        use_hot_connections().close()
