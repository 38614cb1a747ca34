"""The things that `up` runs: PostgreSQL, the guardian and Switchyard's programs; and their keeper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.conf import settings

from core.env import ROOT
from core.exceptions import CannotStart
from core.postgres import Embedded
from orchestrator.launcher.checks import listen, listen_for_checks
from orchestrator.launcher.forks import Fork
from orchestrator.launcher.guardian import BYE, MARK, kill_marked


class ManagedPart(Protocol):
    """One thing that runs, and can be restarted."""

    name: str

    def start(self) -> None: ...
    def is_alive(self) -> bool: ...
    def cause(self) -> str: ...


class Program:
    """A program of Switchyard: a process with all that it starts."""

    def __init__(
        self,
        name: str,
        command: list[str],
        *,
        mark: str,
        log: Path,
        descriptors: Collection[int] = (),
        is_forked: bool = False,
    ) -> None:
        self.name = name
        self.command = command
        self.mark = f"{mark}:{name}"
        self.log = log
        #: The descriptors that the program inherits.
        self.descriptors = descriptors
        self.is_forked = is_forked
        self.process: subprocess.Popen[bytes] | Fork | None = None

    def start(self) -> None:
        self.kill()  # what a dead predecessor left running
        self.process = self._fork() if self.is_forked else self._spawn()

    def _fork(self) -> Fork:
        return Fork(
            self.command[1:],
            title=f"switchyard {self.name}",
            mark=self.mark,
            log=self.log,
            descriptors=self.descriptors,
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        return spawn(
            bound(self.command),
            log=self.log,
            env={**os.environ, MARK: self.mark},
            stdin=subprocess.DEVNULL,
            descriptors=self.descriptors,
        )

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def cause(self) -> str:
        code = self.process.returncode if self.process else None
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"ended with code {code}, see {self.log}"

    def ask_to_stop(self) -> None:
        if self.process is not None and self.is_alive():
            self.process.terminate()

    def kill(self) -> None:
        """Kill the process, its group, and descendants that moved to other groups."""
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        kill_marked(self.mark)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)


def spawn(
    command: list[str],
    *,
    log: Path,
    env: dict[str, str],
    stdin: int,
    descriptors: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that leads its own session and appends its output to a log."""
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 (all parts are ours)
            command,
            cwd=ROOT,
            env=env,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=descriptors,
        )


BOUND = Path(__file__).with_name("bound.py")


def bound(command: list[str]) -> list[str]:
    """Extend a command line so that its process is killed when this one ends."""
    return [sys.executable, "-I", "-S", str(BOUND), str(os.getpid()), *command]


class Guardian:
    """The process that cleans up when `up` is killed."""

    name = "guardian"

    def __init__(self, data_dir: Path, *, mark: str, embedded: bool) -> None:
        kind = "embedded" if embedded else "external"
        module = [sys.executable, "-m", "orchestrator.launcher.guardian"]
        self.command = [*module, mark, str(data_dir), kind]
        self.log = data_dir / "logs" / "guardian.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        env = {name: value for name, value in os.environ.items() if name != MARK}
        self.process = spawn(self.command, log=self.log, env=env, stdin=subprocess.PIPE)

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def cause(self) -> str:
        return "died"

    def dismiss(self) -> None:
        """Tell the guardian that nothing is left to clean up."""
        if self.process is None or self.process.stdin is None:
            return
        with suppress(BrokenPipeError):
            self.process.stdin.write(BYE)
            self.process.stdin.close()
        self.process.wait(timeout=5)


class Postgres:
    """The embedded server."""

    name = "PostgreSQL"

    def __init__(self, data_dir: Path) -> None:
        self.embedded = Embedded(data_dir)

    def start(self) -> None:
        self.embedded.start()

    def is_alive(self) -> bool:
        return self.embedded.is_running()

    def cause(self) -> str:
        return f"died, see {self.embedded.place.log}"

    def stop(self, *, seconds: float) -> None:
        self.embedded.stop(seconds=seconds)


EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 (only compared)


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """Where this stack runs and how people reach it."""

    data_dir: Path
    host: str
    port: int
    database_url: str  #: Empty for the embedded server.
    address: str  #: The URL for a browser, without a slash at the end.
    host_name: str  #: A host name that the web server accepts.

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"


def read_plan() -> LaunchPlan:
    host, port = settings.HOST, settings.PORT
    return LaunchPlan(
        data_dir=settings.DATA_DIR,
        host=host,
        port=port,
        database_url=settings.DATABASE_URL,
        address=shown_address(settings.PUBLIC_URL, host),
        host_name=accepted_host(settings.ALLOWED_HOSTS),
    )


def shown_address(public_url: str, host: str) -> str:
    """Return a URL that works in a browser, even when the server listens on all addresses."""
    shown = "localhost" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return public_url.replace(f"//{host}:", f"//{shown}:", 1).rstrip("/")


def accepted_host(allowed_hosts: list[str]) -> str:
    """Return a host name that the settings allow; a leading dot allows the domain itself."""
    names = [name.lstrip(".") for name in allowed_hosts if name.strip("*.")]
    return names[0] if names else "localhost"


class Sockets:
    """What `up` opens for its programs, so that a restarted one finds it open."""

    def __init__(self, plan: LaunchPlan) -> None:
        #: All web processes accept connections from it.
        self.web = listen(plan.host, plan.port)
        #: By the name of a web process: where it alone answers.
        self.checks = {
            f"web-{number + 1}": listen_for_checks() for number in range(settings.WEB_PROCESSES)
        }
        #: `watch` writes the names of programs that hang, and `up` reads them.
        self._reports, self.reports = os.pipe()
        os.set_blocking(self._reports, False)

    def read_reports(self) -> set[str]:
        """Return the programs that were found hanging since the last call."""
        with suppress(BlockingIOError):
            return set(os.read(self._reports, 65_536).decode().split())
        return set()


def programs(plan: LaunchPlan, sockets: Sockets, *, mark: str, is_forked: bool) -> list[Program]:
    """Return the programs of Switchyard with their command lines."""

    def program(
        name: str, *arguments: str, log: str = "", inherits: tuple[int, ...] = ()
    ) -> Program:
        return Program(
            name,
            [sys.executable, *arguments],
            mark=mark,
            log=plan.logs / f"{log or name}.log",
            descriptors=inherits,
            is_forked=is_forked,
        )

    manage, found, ports = str(ROOT / "manage.py"), [], []
    for name, checks in sockets.checks.items():
        shared, own = sockets.web.fileno(), checks.fileno()
        options = ["--socket", str(shared), "--checks", str(own)]
        found.append(program(name, manage, "web", *options, log="web", inherits=(shared, own)))
        ports.append(f"{name}={checks.getsockname()[1]}")
    found += [program(name, manage, name) for name in ("workers", "supervisor", "terminals")]
    watch = ["-m", "orchestrator.launcher.watch", str(sockets.reports), *ports]
    return [*found, program("watch", *watch, inherits=(sockets.reports,))]


FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
HEALTHY_AFTER = 60.0  #: After this time a restarted part counts as recovered.


class Keeper:
    """Restarts one part when it dies. Times are those of the caller's monotonic clock."""

    def __init__(self, part: ManagedPart, *, say: Callable[[str], None]) -> None:
        self.part = part
        self._say = say
        self._delay = FIRST_DELAY
        self._started: float | None = None
        self._due: float | None = None

    def start(self, now: float) -> None:
        self.part.start()
        self._started, self._due = now, None

    def age(self, now: float) -> float:
        """Return for how long the part has been running."""
        return now - self._started if self._started is not None and self._due is None else 0.0

    def check(self, now: float) -> None:
        """Notice that the part died, or restart it when that is due."""
        if self._due is not None:
            if now >= self._due:
                self._restart(now)
        elif not self.part.is_alive():
            if self.age(now) >= HEALTHY_AFTER:
                self._delay = FIRST_DELAY
            self._plan_restart(now, f"{self.part.name}: {self.part.cause()}")

    def _restart(self, now: float) -> None:
        try:
            self.start(now)
        except (CannotStart, OSError) as fault:
            self._plan_restart(now, f"{self.part.name}: does not start: {fault}")

    def _plan_restart(self, now: float, reason: str) -> None:
        self._due = now + self._delay
        self._say(f"{reason}; restarting in {self._delay:g} s.")
        self._delay = min(self._delay * 2, LONGEST_DELAY)
