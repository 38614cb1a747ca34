"""The whole of Switchyard on one machine: start it, keep it running, stop it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Self

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from core.postgres import require_usable
from orchestrator.launcher import checks, parts
from orchestrator.launcher.dev import CodeWatch, dev_programs
from orchestrator.launcher.forks import CAN_FORK, share_memory
from orchestrator.launcher.guardian import DATABASE_PROGRAMS, MARK, kill_marked
from orchestrator.launcher.web import forget_metrics
from orchestrator.tasks.commands import end_running, running
from orchestrator.workspaces import prepare_installation

#: Any number, the same on every node: only one of them migrates at a time.
MIGRATION_LOCK = 7_401_216_001
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_SECONDS = 1.0
MAX_LOG_BYTES = 10_000_000
TICK = 0.5
HEALTHY_WITHIN = 60.0
STOP_PROGRAMS_WITHIN = 8.0
#: Then the database is stopped at once, and recovers at its next start.
STOP_ALL_WITHIN = 9.0
LOGS_EVERY = 5.0
STOPPED = "Switchyard was stopped."


class StopRequested(BaseException):
    """A stop was requested while the start was still in progress."""


class Signals:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a request to stop, and wakes the loop at once.

    While `abrupt` is set, a request interrupts whatever is being done.
    """

    def __init__(self) -> None:
        self.abrupt = True
        self._requests: list[float] = []
        self._numbers: set[int] = set()

    @property
    def stop(self) -> bool:
        return bool(self._requests)

    @property
    def is_by_hand(self) -> bool:
        """Whether a person stops it, and not a service manager, which may start it again."""
        return bool(self._numbers & {signal.SIGINT, signal.SIGHUP})

    @property
    def hurry(self) -> bool:
        """Whether it was asked again. `make` passes on signals that its whole group was sent."""
        return bool(self._requests) and self._requests[-1] - self._requests[0] > ECHO_SECONDS

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in STOPPING:
            signal.signal(number, self._handle)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # only to wake the loop
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)  # the last steps are short

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._requests.append(time.monotonic())
        self._numbers.add(number)
        if self.abrupt:
            self.abrupt = False
            raise StopRequested

    def wait(self, seconds: float) -> None:
        """Sleep until a signal comes, at most this long."""
        if select.select([self._read], [], [], seconds)[0]:
            os.read(self._read, 4096)


class Stack:
    """Everything that one `up` runs. None of its programs outlives it.

    Commands of tasks are not among them: they end when a person stops Switchyard, and are followed
    again at the next start otherwise.
    """

    def __init__(self, plan: parts.LaunchPlan, *, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.mark = uuid.uuid4().hex
        self.signals = Signals()
        is_embedded = not plan.database_url
        self.guardian = parts.Guardian(plan.data_dir, mark=self.mark, embedded=is_embedded)
        self.postgres = parts.Postgres(plan.data_dir) if is_embedded else None
        self.sockets: parts.Sockets | None = None
        self.programs: list[parts.Program] = []
        self.code_watch: CodeWatch | None = None
        self.keepers: dict[str, parts.Keeper] = {}
        self._logs_rotated = 0.0

    def run(self) -> None:
        """Run until asked to stop."""
        with checks.claim_data_dir(self.plan.data_dir) as claim, self.signals:
            try:
                self._open(claim)
                self._supervise()
            except StopRequested:
                pass
            finally:
                self.signals.abrupt = False
                self._close()

    def _open(self, claim: IO[str]) -> None:
        self.sockets = parts.Sockets(self.plan)
        forget_metrics()
        checks.sign_claim(claim, address=self.plan.address)
        rotate_logs(self.plan.logs)
        adopt_orphans()
        self._start(self.guardian)
        os.environ[MARK] = self.mark  # inherited by PostgreSQL's processes
        if self.postgres is None:
            require_usable(self.plan.database_url)
        else:
            self._start(self.postgres)
        migrate(say=self.say)
        collect_static_files()
        sign_in_path = prepare_installation()
        self.programs = self._list_programs(self.sockets)
        for program in self.programs:
            self._start(program)
        if settings.AUTORELOAD:
            self.code_watch = CodeWatch(self.programs, logs=self.plan.logs, say=self.say)
            self.code_watch.start()
        self.signals.abrupt = False
        self._welcome(self._wait_until_healthy(), sign_in_path)

    def _list_programs(self, sockets: parts.Sockets) -> list[parts.Program]:
        """List the programs; those of one machine are forked from this process."""
        if settings.AUTORELOAD:
            return dev_programs(self.plan, sockets, mark=self.mark)
        if CAN_FORK:
            share_memory()
        return parts.programs(self.plan, sockets, mark=self.mark, is_forked=CAN_FORK)

    def _start(self, part: parts.ManagedPart) -> None:
        self.keepers[part.name] = keeper = parts.Keeper(part, say=self.say)
        keeper.start(time.monotonic())

    def _wait_until_healthy(self) -> checks.Health:
        health = checks.Health()
        deadline = time.monotonic() + HEALTHY_WITHIN
        while not health.ok and not self.signals.stop and time.monotonic() < deadline:
            self.signals.wait(TICK / 2)
            self._check()
            health = self._ask_health(seconds=2)
        return health

    def _ask_health(self, *, seconds: float = 10) -> checks.Health:
        plan = self.plan
        return checks.ask_health(plan.host, plan.port, name=plan.host_name, seconds=seconds)

    def _welcome(self, health: checks.Health, sign_in_path: str | None) -> None:
        if self.signals.stop:
            return
        if not health.answered:
            self.say(f"The web server does not answer yet. See {self.plan.logs / 'web.log'}")
        elif not health.ok:
            self.say(f"Some checks fail: {', '.join(health.failed) or 'no details'}.")
        self.say(f"\nSwitchyard runs at {self.plan.address}/")
        if sign_in_path:
            self.say(f"Sign in with this link, once: {self.plan.address}{sign_in_path}")
        self.say(f"Logs are in {self.plan.logs}. Ctrl-C stops everything.\n")

    def _supervise(self) -> None:
        while not self.signals.stop:
            self.signals.wait(TICK)
            self._check()

    def _check(self) -> None:
        now = time.monotonic()
        reap_orphans(self._known())
        for keeper in self.keepers.values():
            keeper.check(now)
        reports = self.sockets.read_reports() if self.sockets else ()
        for program in self.programs:
            if (
                program.name in reports
                and self.keepers[program.name].age(now) > settings.HANG_SECONDS
            ):
                self.say(f"{program.name}: no sign of life for {settings.HANG_SECONDS:g} s.")
                program.kill()
        if now - self._logs_rotated > LOGS_EVERY:
            self._logs_rotated = now
            rotate_logs(self.plan.logs)

    def _known(self) -> set[int]:
        processes = [self.guardian.process, *(program.process for program in self.programs)]
        return {process.pid for process in processes if process is not None}

    def _close(self) -> None:
        """Stop the programs, then the database, then the guardian. Nothing may raise before that."""
        if self.code_watch:
            self.code_watch.stop()
        if self.signals.stop:
            self.say("Stopping …")
        asked = time.monotonic()
        for program in self.programs:
            program.ask_to_stop()
        while any(program.is_alive() for program in self.programs):
            self.signals.wait(TICK / 5)
            if time.monotonic() - asked > STOP_PROGRAMS_WITHIN or self.signals.hurry:
                break  # a second Ctrl-C means now
        for program in self.programs:
            program.kill()
        kill_marked(self.mark, spare=DATABASE_PROGRAMS)
        with suppress(OSError):
            self._leave_commands()
        if self.postgres is not None:
            self.postgres.stop(seconds=asked + STOP_ALL_WITHIN - time.monotonic())
        kill_marked(self.mark)
        with suppress(subprocess.TimeoutExpired):
            self.guardian.dismiss()

    def _leave_commands(self) -> None:
        if self.signals.is_by_hand:
            end_running(STOPPED)
        elif continuing := running():
            self.say(
                f"{len(continuing)} task commands continue to run. The next start follows them."
            )


def migrate(*, say: Callable[[str], None]) -> None:
    """Apply the missing migrations, one node at a time."""
    if not _migrations_are_missing():
        return
    say("Preparing the database …")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        try:
            call_command("migrate", verbosity=0, interactive=False)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def _migrations_are_missing() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def collect_static_files() -> None:
    """Copy the static files to where they are served from, if one of them changed."""
    stamp = Path(settings.STATIC_ROOT) / ".collected"
    signature = _signature_of_static_files()
    if stamp.exists() and stamp.read_text() == signature:
        return
    call_command("collectstatic", verbosity=0, interactive=False, clear=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(signature)


def _signature_of_static_files() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            found = Path(storage.path(name)).stat()
            digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def adopt_orphans() -> None:
    """Become the parent of grandchildren that lose theirs, PostgreSQL among them."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(known: set[int]) -> None:
    """Reap dead adopted processes. A dead PostgreSQL cannot be replaced before that."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid in known:  # its starter reads the exit code
            return
        os.waitpid(dead.si_pid, 0)


def rotate_logs(folder: Path) -> None:
    """Move the end of large logs to a second file. Writers append, so they need not reopen."""
    for log in folder.glob("*.log"):
        size = log.stat().st_size
        if size > MAX_LOG_BYTES:
            with log.open("rb") as source, log.with_suffix(".log.1").open("wb") as target:
                # A log that grew without bounds must not fill the disk with a copy of it.
                source.seek(max(0, size - MAX_LOG_BYTES))
                shutil.copyfileobj(source, target)
            os.truncate(log, 0)
