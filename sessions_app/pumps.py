"""A thread that carries off, in bundles, what the runs of this process have to tell."""

from __future__ import annotations

import threading

import structlog
from django.db import Error

from tenants.off_loop import let_go

log = structlog.get_logger(__name__)


class Pump:
    """Flushes every so often while it is busy. Its lock guards what it carries."""

    def __init__(self, name: str, *, every: float) -> None:
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._every = every
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def flush(self) -> None:
        """Store and send what is new. The lock is held."""
        raise NotImplementedError

    def _work(self) -> None:
        pause = threading.Event()
        while True:
            self._busy.wait()
            pause.wait(self._every)
            try:
                with self._lock:
                    self.flush()
            except Error:
                log.warning("pump_failed", pump=threading.current_thread().name)
            finally:
                let_go()
