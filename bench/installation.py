"""What all measurements share: a temporary installation with a durable PostgreSQL, and their options."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.rounds import STARTS_VARIABLE

FOLDER = Path(tempfile.mkdtemp(prefix="switchyard-bench-"))
FOLDER.chmod(0o755)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ |= {
    "DATA_DIR": str(FOLDER),
    "DJANGO_SETTINGS_MODULE": "config.settings.local",
    "LOG_LEVEL": "WARNING",
    STARTS_VARIABLE: str(FOLDER / "starts"),
}
os.environ.pop("DATABASE_URL", None)

import django

from core.postgres import Embedded

ROOT = Path(__file__).resolve().parent.parent


def parse_options(
    description: str | None, *, file_help: str = "", **defaults: int | list[int]
) -> Namespace:
    """Read the command line. Every count is an option, so that a first try can be small."""
    parser = ArgumentParser(
        description=description, formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False
    )
    if file_help:
        parser.add_argument("file", type=Path, nargs="?", help=file_help)
    for name, default in defaults.items():
        many = "+" if isinstance(default, list) else None
        parser.add_argument(
            f"--{name}", type=int, nargs=many, default=default, help=f"default: {default}"
        )
    return parser.parse_args()


@contextmanager
def running() -> Iterator[None]:
    """Run PostgreSQL with all tables during the block. The folder is deleted when the program ends."""
    server = Embedded(FOLDER)
    server.start()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    try:
        yield
    finally:
        from django.db import connection

        connection.close_pool()  # type: ignore[attr-defined]
        server.stop("immediate")


@contextmanager
def workers(
    *, model_seconds: float = 0, processes: int = 2, module: str = "bench.worker"
) -> Iterator[None]:
    """Run a cluster, and a supervisor with an interval of one second, during the block."""
    from sessions_app.lanes.recovery import ping_workers, recover_lanes
    from tenants.pulse import pulse_age

    env = {**os.environ, "MODEL_SECONDS": str(model_seconds), "WORKERS": str(processes)}
    cluster = subprocess.Popen(  # noqa: S603 (a module of this folder)
        [sys.executable, "-m", module], cwd=ROOT, env=env, start_new_session=True
    )
    began = time.monotonic()
    while (pulse_age("worker") or 99) > time.monotonic() - began:
        ping_workers()
        time.sleep(0.1)
    stop = threading.Event()

    def supervise() -> None:
        while not stop.wait(1):
            recover_lanes()

    thread = threading.Thread(target=supervise)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        os.killpg(cluster.pid, signal.SIGKILL)
        cluster.wait()


def install(requirements: str, *, into: str) -> Path:
    """Return the interpreter of an environment in `var`, which is made if its requirements changed.

    The requirements are a file of `bench/peers`.
    """
    environment, wanted = ROOT / "var" / into, ROOT / "bench" / "peers" / requirements
    stamp, python = environment / "installed.txt", environment / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print(f"Installing {wanted.name} into var/{into} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)  # noqa: S603
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)  # noqa: S603
        stamp.write_text(wanted.read_text())
    return python


def make_agents(count: int = 1) -> list[Any]:
    """Create a workspace with this many agents."""
    from agents.definitions import create_agent
    from orchestrator.workspaces import create_workspace

    workspace = create_workspace(name="Bench", owner=None)
    fields = {"name": "Bench", "provider": "demo", "model": "demo"}
    return [create_agent(workspace_id=workspace.pk, fields=fields) for _ in range(count)]


def make_sessions(count: int, *, events: int = 0) -> list[Any]:
    """Create sessions of one agent with this much history."""
    from sessions_app.log.writer import import_events
    from sessions_app.sessions import get_or_create_session

    [agent] = make_agents()
    history = [
        {
            "type": "user.message" if nth % 2 == 0 else "agent.message",
            "payload": {"text": f"message {nth} with some words in it", "model": "demo"},
        }
        for nth in range(events)
    ]
    made = [get_or_create_session(agent=agent)[0] for _ in range(count)]
    if history:
        for session in made:
            import_events(session.pk, history, None)
    return made


def send(session: Any, text: str = "hello") -> Any:
    from sessions_app.lanes import run_queue
    from sessions_app.log.writer import NewEvent
    from sessions_app.models import SessionEvent

    event = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": text})
    return run_queue.accept(session.pk, event).run_id


def wait_until_done(count: int, seconds: float = 600) -> None:
    """Wait until this many runs have ended."""
    from sessions_app.models import Run

    end = time.monotonic() + seconds
    while Run.objects.filter(status="completed").count() < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{count} runs were not over after {seconds:g} s")
        time.sleep(0.2)


def milliseconds_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def spread(millis: list[float]) -> str:
    """Return the median and the 95th percentile."""
    ordered = sorted(millis)
    return f"p50 {statistics.median(ordered):6.1f} ms   p95 {ordered[int(len(ordered) * 0.95)]:6.1f} ms"
