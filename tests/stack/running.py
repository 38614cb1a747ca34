"""Runs a whole Switchyard in its own processes."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import psutil

from core.env import ROOT
from core.postgres import Embedded
from tests.database import fingerprint

MARK = "SWITCHYARD_TEST"  #: Every process of a stack inherits this variable.
#: Variables of the test's environment that a stack must not inherit.
FOREIGN = {"DATABASE_URL", "REDIS_URL", "DATA_DIR", "HOST", "PUBLIC_URL", "SWITCHYARD_STACK"}
LAST_WORDS = "Ctrl-C stops everything."  #: The last line of the welcome message.
HEALTH = "/api/v1/health/"
KEEPER = "tools_app.sandbox.tasks.keeper"
PARTS = {
    "up": "manage.py up",
    "guardian": "-m orchestrator.launcher.guardian",
    "web": "switchyard web-1",
    "web-2": "switchyard web-2",
    "workers": "switchyard workers",
    "supervisor": "switchyard supervisor",
    "terminals": "switchyard terminals",
    "watch": "switchyard watch",
    "postgres": "bin/postgres -D",
}

Found = TypeVar("Found")
#: Seconds after which something hangs. On a busy machine everything may take long.
PATIENCE = 300


def free_port() -> int:
    """Return a port outside the range that the kernel uses for outgoing connections."""
    while True:
        port = secrets.choice(range(10_000, 30_000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(look: Callable[[], Found], what: str, *, seconds: float = PATIENCE) -> Found:
    """Poll until something is found and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"Waited {seconds:g} s in vain for {what}.")


class Running:
    """Runs one `manage.py up` on a data directory and finds the processes it started."""

    root = ROOT  #: The folder of the code.

    def __init__(self, data_dir: Path, **env: str) -> None:
        self.data_dir = data_dir
        self.port = int(env.get("PORT", 0)) or free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.mark = uuid.uuid4().hex
        self.env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        self.env |= {
            "DJANGO_SETTINGS_MODULE": "config.settings.local",
            "DATA_DIR": str(data_dir),
            "PORT": str(self.port),
            "WEB_PROCESSES": "2",  # however many processors the machine has
            MARK: self.mark,
            **env,
        }
        self.process: subprocess.Popen[str] | None = None
        self.output = data_dir.with_name(f"{data_dir.name}-{self.mark[:6]}.txt")

    def start(self) -> None:
        """Start the stack and wait until it is healthy."""
        if not self.data_dir.exists() and "DATABASE_URL" not in self.env:
            # Creating the cluster and its tables takes most of a first start.
            self.data_dir.mkdir(parents=True)
            copy = ["cp", "-a", str(empty_cluster()), str(self.data_dir / "postgres")]
            subprocess.run(copy, check=True)
        self.launch()
        self.wait_while_starting(lambda: LAST_WORDS in self.said(), "the welcome")
        self.wait_while_starting(self.is_healthy, "health")

    def wait_while_starting(self, look: Callable[[], object], what: str) -> None:
        """Wait until something is found or the start has failed."""
        wait_for(lambda: look() or self._ended(), what)
        assert not self._ended(), self.said()

    def launch(self) -> None:
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up"],
                cwd=self.root,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py on the same data directory."""
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def said(self) -> str:
        return self.output.read_text()

    def health(self) -> dict[str, object]:
        """Return the response of the health endpoint, or an empty dictionary."""
        try:
            with urllib.request.urlopen(f"{self.base_url}{HEALTH}", timeout=5) as answer:  # noqa: S310
                body = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        except OSError:
            return {}
        found: dict[str, object] = json.loads(body)
        return found

    def is_healthy(self) -> bool:
        return self.health().get("status") == "ok"

    def everything(self) -> list[psutil.Process]:
        """Return every living process of this stack, found by the variable they inherit."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                mine = process.environ().get(MARK) == self.mark
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def pids(self) -> dict[str, int]:
        """Return the process id of each part. A part leads a session; its forks do not."""
        found: dict[str, int] = {}
        for process in self.everything():
            with suppress(psutil.Error, ProcessLookupError):
                line = " ".join(process.cmdline())
                leads = os.getsid(process.pid) == process.pid
                found |= {
                    name: process.pid for name, words in PARTS.items() if leads and words in line
                }
        return found

    def group(self, leader: int) -> list[psutil.Process]:
        """Return the living processes of a part and its forks."""
        found = []
        for process in self.everything():
            with suppress(ProcessLookupError):
                if os.getpgid(process.pid) == leader:
                    found.append(process)
        return found

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        pid = self.pids()[name]
        os.kill(pid, number)
        return pid

    def wait_until_replaced(self, name: str, old: int) -> None:
        wait_for(lambda: self.pids().get(name, old) != old, f"a new {name}")
        wait_for(self.is_healthy, f"health with a new {name}")

    def keepers(self) -> list[psutil.Process]:
        """Return the processes that keep commands of tasks."""
        found = []
        for process in self.everything():
            with suppress(psutil.Error):
                if KEEPER in process.cmdline():
                    found.append(process)
        return found

    def wait_until_gone(self, *, but_keepers: bool = False) -> None:
        """Wait until no process is left, except keepers if wanted."""
        if self.process is not None:
            self.process.wait(timeout=PATIENCE)

        def is_gone() -> bool:
            spared = self.keepers() if but_keepers else []
            return not set(self.everything()) - set(spared)

        wait_for(is_gone, "the end of every process")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the stack by a signal and return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)

    def destroy(self) -> None:
        """End every process of the stack."""
        if self.process is not None and self.process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.stop(signal.SIGINT)  # Ends commands of tasks too.
        for process in self.everything():
            with suppress(psutil.Error):
                process.kill()

    def _ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None


@cache
def empty_cluster() -> Path:
    """Return a database with all tables and no rows, made once for all workers and later runs."""
    folder = ROOT / "var" / "test" / "clusters"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / fingerprint()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for older in folder.glob("*/"):
                shutil.rmtree(older)
            _make_cluster(folder / "unfinished")
            (folder / "unfinished").rename(made)
    return made / "postgres"


def _make_cluster(data_dir: Path) -> None:
    server = Embedded(data_dir, durable=False)
    server.start()
    try:
        migrated = Running(data_dir).manage("migrate")
        assert migrated.returncode == 0, migrated.stderr
    finally:
        server.stop()


@contextmanager
def started(name: str, **env: str) -> Iterator[Running]:
    """Run a healthy stack in its own folder and remove it afterwards."""
    # Not pytest's own folder, which the user of PostgreSQL cannot enter.
    folder = Path(tempfile.mkdtemp(prefix=f"switchyard-{name}-"))
    folder.chmod(0o755)
    running = Running(folder / "data", **env)
    try:
        running.start()
        yield running
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)
