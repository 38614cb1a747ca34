"""What the machine must offer before a command may run. Each lack is told with its remedy."""

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

from config.faults import SandboxUnavailable
from tools_app.folder import acting_uid

#: `--disable-userns`, without which a command could open further namespaces.
OLDEST_BWRAP = (0, 8)
#: From here on the number of processes is counted per sandbox and not per user of the machine.
OLDEST_LINUX = (5, 14)
PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALL = (
    "Install it with `apt install bubblewrap` (Debian, Ubuntu), `dnf install bubblewrap` (Fedora) "
    "or `pacman -S bubblewrap` (Arch)"
)


def find_bwrap() -> str:
    """The path of a bubblewrap that is new enough, on a kernel that is new enough."""
    if platform.system() != "Linux":
        raise SandboxUnavailable(
            f"Commands run in a sandbox that needs Linux; this is {platform.system()}."
        )
    if _numbers(platform.release()) < OLDEST_LINUX:
        raise SandboxUnavailable(
            f"The sandbox needs Linux {_dotted(OLDEST_LINUX)} or newer to bound the number of "
            f"processes; this is {platform.release()}."
        )
    if not os.path.exists(f"/proc/self/task/{threading.get_native_id()}/children"):
        raise SandboxUnavailable(
            "The kernel does not list the children of processes (CONFIG_PROC_CHILDREN), without "
            "which the sandbox cannot bound their memory."
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
    """Where bash lies under /usr, as that is what a sandbox sees of the machine."""
    path = shutil.which("bash", path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise SandboxUnavailable("bash is not installed. Install the package `bash`.")
    return path


def find_setsid() -> str:
    """What gives a terminal to the shell inside."""
    path = shutil.which("setsid", path=PLACES)
    if path is None:
        raise SandboxUnavailable("setsid is not installed. Install the package `util-linux`.")
    return path


def check_passable(folder: Path) -> None:
    """Root hands commands to a user without rights, who must be able to reach the folder."""
    if os.geteuid() != 0:
        return
    for parent in folder.parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise SandboxUnavailable(
                f"Commands run as user {acting_uid()}, who may not pass {parent}. "
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
