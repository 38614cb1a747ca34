"""Restarts the programs of `make dev` when Python code changes, and shows their logs in one terminal.

Templates are read again for each page, and Vite's own server sends scripts and styles: neither
needs a restart.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from core.env import ROOT
from core.exceptions import CannotStart
from orchestrator.launcher.checks import PATH
from orchestrator.launcher.parts import LaunchPlan, Program, Sockets, programs

LOOK_EVERY = 0.2
HEALTH = PATH.encode()  #: `up` asks for this page every few seconds; its log lines are not shown.
RELOADER = Path(__file__).with_name("reloader.py")
#: Programs that leave the processors to the others while all start at once.
LESS_URGENT = {"supervisor", "terminals", "watch"}
FRONTEND = ROOT / "frontend"
NOT_WATCHED = {"__pycache__", "node_modules", "tests", "var"}


def dev_programs(plan: LaunchPlan, sockets: Sockets, *, mark: str) -> list[Program]:
    """List the programs of Switchyard, each under the reloader, and Vite's development server."""
    found = programs(plan, sockets, mark=mark, is_forked=False)
    for program in found:
        python, *arguments = program.command
        program.command = [python, str(RELOADER), *arguments]
        if program.name in LESS_URGENT and (nice := shutil.which("nice")):
            program.command = [nice, *program.command]
    return [*found, Program("vite", vite_command(), mark=mark, log=plan.logs / "vite.log")]


def vite_command() -> list[str]:
    """Return the command line of Vite's development server."""
    node, vite = shutil.which("node"), FRONTEND / "node_modules" / "vite" / "bin" / "vite.js"
    if node is None or not vite.exists():
        raise CannotStart("Vite is not installed. Start with `make dev`, which installs it.")
    port = str(settings.VITE_PORT)
    return [node, str(vite), str(FRONTEND), "--port", port, "--strictPort", "--host", "127.0.0.1"]


def python_files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Walk the Python files of the product."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in NOT_WATCHED and not entry.name.startswith("."):
                yield from python_files(Path(entry.path))
        elif entry.name.endswith(".py"):
            yield entry


class CodeWatch:
    """Watches for changed files on a background thread."""

    def __init__(
        self, reloaded: Sequence[Program], *, logs: Path, say: Callable[[str], None]
    ) -> None:
        self._programs = reloaded
        self._logs = logs
        self._say = say
        self._times = self._read_times()
        self._shown = {log: log.stat().st_size for log in logs.glob("*.log")}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="code-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            with suppress(OSError):  # a file that an editor replaces at this moment
                self.look()

    def look(self) -> None:
        """Reload if a file changed, then print what the programs logged."""
        times = self._read_times()
        if changed := {path for path, _ in times.items() ^ self._times.items()}:
            self._times = times
            names = sorted(os.path.relpath(path, ROOT) for path in changed)
            self._say(f"{', '.join(names)} changed; reloading.")
            self._reload()
        for log in sorted(self._logs.glob("*.log")):
            self._print_new_lines(log)

    def _reload(self) -> None:
        for program in self._programs:
            if str(RELOADER) in program.command and program.process and program.is_alive():
                os.kill(program.process.pid, signal.SIGHUP)

    def _read_times(self) -> dict[str, int]:
        return {entry.path: entry.stat().st_mtime_ns for entry in python_files(ROOT)}

    def _print_new_lines(self, log: Path) -> None:
        start = self._shown.get(log, 0)
        with log.open("rb") as file:
            file.seek(start if start <= log.stat().st_size else 0)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._shown[log] = file.tell()
                if line.strip() and HEALTH not in line:
                    self._say(f"{log.stem:>10} │ {line.decode(errors='replace').rstrip()}")
