"""Runs the PostgreSQL that comes as a wheel, for machines that have none of their own.

Any number of processes may use one data directory: `start` finds a running server or starts it,
`release` stops it when its last user leaves, `stop` ends it whoever uses it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from config.faults import CannotStart
from config.pgdata import Place, binary, make_cluster, write_settings

PORT = 5432  #: Only part of the socket's name: the server never listens on TCP.
DATABASE = "switchyard"
USER = "postgres"
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 107 bytes on Linux and 103 on macOS
SHORT_FOLDER = Path("/tmp")  # noqa: S108 (not TMPDIR: every process must compute the same folder)
START_SECONDS = 120  # recovery after a crash may take a while
STOP_SECONDS = 10

#: What the server says while the remains of one that was killed are still being cleared away.
NOT_YET_GONE = ('lock file "postmaster.pid" already exists', "is still in use")

StopMode = Literal["fast", "immediate"]


def socket_dir(data_dir: Path) -> Path:
    """Say where the server's socket lies: in the data directory, unless that path is too long."""
    data_dir = data_dir.absolute()
    folder = data_dir / "run"
    if len(bytes(folder / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
        return folder
    return SHORT_FOLDER / f"switchyard-{hashlib.sha256(bytes(data_dir)).hexdigest()[:16]}"


class Embedded:
    """The server of one data directory. `durable=False` trades safety for speed, for tests."""

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        data_dir = data_dir.absolute()
        self.place = Place(data_dir=data_dir, socket_dir=socket_dir(data_dir))
        self.durable = durable
        self._use: IO[str] | None = None

    def start(self) -> None:
        """Make the cluster if there is none, start it if it does not run, and count as a user."""
        self.place.prepare()
        self._join()
        try:
            with self._alone():
                make_cluster(self.place, durable=self.durable)
                self._run_server()
                self._make_database()
        except BaseException:
            self._leave()
            raise

    def stop(self, mode: StopMode = "fast", *, seconds: float = STOP_SECONDS) -> None:
        """Stop the server; at once, and with recovery at the next start, if it takes too long."""
        if self.place.is_made():
            with self._alone():
                self._stop_server(mode, seconds)
        self._leave()

    def release(self) -> None:
        """Stop counting as a user, and stop the server if no other process uses it."""
        if self._use is None:
            return
        try:
            fcntl.flock(self._use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._leave()
        else:
            self.stop()

    def is_running(self) -> bool:
        return self.pid() is not None

    def pid(self) -> int | None:
        """Give the process id of the running server, never that of a stranger who reuses it."""
        import psutil  # here, as settings import this module and need only `socket_dir`

        try:
            lines = (self.place.pgdata / "postmaster.pid").read_text().splitlines()
            process = psutil.Process(int(lines[0]))
            alive = process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, IndexError, psutil.Error):
            return None
        return process.pid if alive else None

    def _run_server(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        trouble = "it does not answer"
        while time.monotonic() < deadline:
            if self.is_running():  # perhaps it is just stopping, so ask
                if self._answers():
                    return
            else:
                write_settings(self.place, port=PORT, durable=self.durable)
                log_size = self.place.log.stat().st_size
                trouble = self._control("start", "-l", str(self.place.log), seconds=START_SECONDS)
                if not trouble:
                    return
                said = self.place.log.read_text(errors="replace")[log_size:]
                if not any(reason in said for reason in NOT_YET_GONE):
                    trouble = first_complaint(said) or trouble
                    break
            time.sleep(0.1)
        raise CannotStart(f"PostgreSQL does not start ({trouble}). See {self.place.log}")

    def _stop_server(self, mode: StopMode, seconds: float) -> None:
        for how, patience in ((mode, seconds), ("immediate", STOP_SECONDS)):
            if not self.is_running():
                return
            self._control("stop", "-m", how, seconds=patience)

    def _control(self, verb: str, *options: str, seconds: float) -> str:
        """Run pg_ctl and give its last line of complaint, empty when all is well."""
        command = [binary("pg_ctl"), verb, "-w", "-s", "-D", str(self.place.pgdata)]
        command += ["-t", str(max(1, round(seconds))), *options]
        with tempfile.TemporaryFile("w+") as output:  # the server would hold a pipe open for ever
            done = subprocess.run(  # noqa: S603 (all parts are ours)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
                **self.place.identity(),
            )
            output.seek(0)
            said = output.read().strip().splitlines()
        return "" if done.returncode == 0 else (said[0] if said else f"pg_ctl {verb} failed")

    def _answers(self) -> bool:
        command = [binary("pg_isready"), "-q", "-h", str(self.place.socket_dir)]
        done = subprocess.run([*command, "-p", str(PORT)], check=False)  # noqa: S603
        return done.returncode == 0

    def _make_database(self) -> None:
        import psycopg  # here, as settings import this module and need only `socket_dir`

        with psycopg.connect(
            host=str(self.place.socket_dir), port=PORT, user=USER, dbname=USER, autocommit=True
        ) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
            if not found.fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from starting or stopping the same server meanwhile."""
        with self._lock_file("postgres") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _lock_file(self, name: str) -> IO[str]:
        return os.fdopen(os.open(self.place.lock(name), os.O_RDWR | os.O_CREAT, 0o600), "r+")

    def _join(self) -> None:
        if self._use is None:
            use = self._lock_file("users")
            fcntl.flock(use, fcntl.LOCK_SH)  # waits while the last user stops the server
            self._use = use

    def _leave(self) -> None:
        if self._use is not None:
            self._use.close()
            self._use = None


def first_complaint(log: str) -> str:
    """Find the first line of a server's log that says what is wrong."""
    found = re.search(r"(?:FATAL|ERROR|PANIC):\s+(.+)", log)
    return found.group(1) if found else ""
