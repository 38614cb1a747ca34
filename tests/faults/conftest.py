"""Fixtures of a real worker cluster on the test's own database, and of a supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from django.db import connection

from agents.definitions import create_agent
from agents.models import Agent
from orchestrator.workspaces import create_workspace
from sessions_app.lanes.recovery import ping_workers, recover_lanes
from sessions_app.models import Session
from sessions_app.sessions import get_or_create_session
from tenants.pulse import pulse_age

ROOT = Path(__file__).parents[2]


def eventually(check: Callable[[], object], seconds: float = 60) -> None:
    """Wait until the check is true. The limit only ends a test that hangs."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"still not true after {seconds} s: {check}"
        time.sleep(0.05)


def database_url() -> str:
    """Return the URL of the test's own database, for another process."""
    database = connection.settings_dict
    if settings.EMBEDDED:
        return f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    return settings.DATABASE_URL.rsplit("/", 1)[0] + f"/{database['NAME']}"


@dataclass(kw_only=True)
class Workers:
    """Runs a cluster with `python -m tests.faults.worker`."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    env: dict[str, str] = field(default_factory=dict)

    def start(self, **env: str) -> None:
        self.env = {**self.env, **env}
        words = {
            "DATABASE_URL": database_url(),
            "DJANGO_SETTINGS_MODULE": "config.settings.local",
            "DATA_DIR": str(self.folder),
            "LEASE_SECONDS": "3",
            "HEARTBEAT_SECONDS": "1",
            "FAULTS": str(self.folder),
            "LOG_LEVEL": "WARNING",
        }
        with (self.folder / "workers.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.worker"],
                cwd=ROOT,
                env={**os.environ, **words, **self.env},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_at(self, point: str) -> None:
        """Kill the next process that reaches this crash point."""
        (self.folder / "killed").unlink(missing_ok=True)
        (self.folder / "effects").unlink(missing_ok=True)
        (self.folder / "new").write_text(point)
        (self.folder / "new").rename(self.folder / "kill_at")

    @property
    def was_killed(self) -> bool:
        return (self.folder / "killed").exists()

    @property
    def effects(self) -> list[str]:
        """Return what the tool `record` did, in order."""
        file = self.folder / "effects"
        return file.read_text().split() if file.exists() else []

    @property
    def log(self) -> str:
        return (self.folder / "workers.log").read_text()

    def sentinel(self) -> psutil.Process:
        assert self.process
        return psutil.Process(self.process.pid).children()[0]

    def parts(self) -> list[psutil.Process]:
        """Return the sentinel's children: workers first, then monitor and pusher."""
        return sorted(self.sentinel().children(), key=lambda process: process.pid)

    def wait_ready(self) -> None:
        def gives_a_sign() -> bool:
            ping_workers()
            return (pulse_age("worker") or 99) < 2

        eventually(gives_a_sign)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def workers(transactional_db: None, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(folder=tmp_path)
    yield made
    made.stop()


@pytest.fixture
def supervisor(transactional_db: None) -> Iterator[None]:
    """Recover lanes as the supervisor does, on a thread of the test."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            recover_lanes()
        connection.close()

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.fixture
def demo_agent(transactional_db: None) -> Agent:
    workspace = create_workspace(name="Faults", owner=None)
    fields = {"name": "Demo", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields)


@pytest.fixture
def demo_session(demo_agent: Agent) -> Session:
    session, _ = get_or_create_session(agent=demo_agent)
    return session
