"""Checks what a machine must offer before a command may run, and says how to fix what is missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import subprocess
import threading
from functools import lru_cache
from pathlib import Path

from tools_app.exceptions import SandboxUnavailable
from tools_app.files import sandbox_uid

#: The first version with `--disable-userns`, which keeps a command from creating namespaces.
OLDEST_BWRAP = (0, 8)
#: From this version on, processes are counted per sandbox and not per user of the machine.
OLDEST_LINUX = (5, 14)
PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL = (
    "Install it with `apt install bubblewrap` (Debian, Ubuntu), `dnf install bubblewrap` (Fedora) "
    "or `pacman -S bubblewrap` (Arch)"
)


def find_bwrap() -> str:
    """Return the path of bubblewrap. Raise SandboxUnavailable if it or the kernel is too old."""
    if platform.system() != "Linux":
        raise SandboxUnavailable(f"The sandbox needs Linux; this is {platform.system()}.")
    if _numbers(platform.release()) < OLDEST_LINUX:
        raise SandboxUnavailable(
            f"The sandbox needs Linux {_dotted(OLDEST_LINUX)} or newer to limit the number of "
            f"processes; this is {platform.release()}."
        )
    if not os.path.exists(f"/proc/self/task/{threading.get_native_id()}/children"):
        raise SandboxUnavailable(
            "The kernel does not list the children of processes (CONFIG_PROC_CHILDREN), so the "
            "sandbox cannot limit their memory."
        )
    path = shutil.which("bwrap", path=PLACES)
    if path is None:
        raise SandboxUnavailable(f"bubblewrap is not installed. {INSTALL}.")
    if (found := _version(path)) < OLDEST_BWRAP:
        raise SandboxUnavailable(
            f"bubblewrap {_dotted(found)} is too old. {INSTALL} in version "
            f"{_dotted(OLDEST_BWRAP)} or newer."
        )
    return path


def find_bash() -> str:
    """Return the path of bash under /usr, which is what a sandbox sees of the machine."""
    path = shutil.which("bash", path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise SandboxUnavailable("bash is not installed. Install the package `bash`.")
    return path


def find_setsid() -> str:
    """Return the path of setsid, which gives a terminal to the shell inside."""
    path = shutil.which("setsid", path=PLACES)
    if path is None:
        raise SandboxUnavailable("setsid is not installed. Install the package `util-linux`.")
    return path


def check_passable(folder: Path) -> None:
    """Check that the unprivileged user that runs the commands of root can reach the folder."""
    if os.geteuid() != 0:
        return
    for parent in folder.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise SandboxUnavailable(
                f"Commands run as user {sandbox_uid()}, which may not enter {parent}. "
                f"Run `chmod o+x {parent}`, or set DATA_DIR to another folder."
            )


@lru_cache(maxsize=4)
def _version(path: str) -> tuple[int, ...]:
    told = subprocess.run(  # noqa: S603
        [path, "--version"], capture_output=True, text=True, env={}, timeout=10, check=False
    )
    return _numbers(told.stdout)


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
