"""How bubblewrap is told to confine a command: what it sees, and what it may use.

Nothing of the host is visible but its programs and libraries, read-only. The arguments travel
through a pipe, so that the command cannot read the host's paths in `/proc/1/cmdline`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from django.conf import settings

from config.env import ROOT
from tools_app.folder import MOUNTED_AT
from tools_app.sandbox.base import Limits, Mount

#: Who the command believes to be.
UID = "1000"
HOME = MOUNTED_AT
ENVIRONMENT = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "TMPDIR": "/tmp",  # noqa: S108
    "USER": "agent",
}
#: A person's shell has a screen, and leaves no history among the session's files.
TERMINAL_VARIABLES = {"HISTFILE": "/dev/null", "TERM": "xterm-256color"}
NAMESPACES = ("user", "pid", "ipc", "uts", "cgroup", "net")
#: Where the host keeps its programs and libraries.
PROGRAMS = ("/usr",)
#: What programs need of /etc to start and to check certificates. None of it is secret.
CONFIGURATION = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ssl/certs",
)
PASSWD = "root:x:0:0::/:/bin/false\nagent:x:1000:1000:Agent:/workspace:/bin/bash\n"  # noqa: S105
GROUP = "root:x:0:\nagent:x:1000:\n"
#: Exit code and first words with which the command's shell says that a limit could not be set.
UNLIMITED_CODE, UNLIMITED_WORDS = 125, "sandbox: this limit cannot be set: "
#: The limits are set inside, where the count of processes is the sandbox's own.
SET_LIMITS = f"""
limit() {{ ulimit "$1" "$2" || {{ echo "{UNLIMITED_WORDS}$3"; exit {UNLIMITED_CODE}; }}; }}
limit -c 0 'core size' 2>/dev/null
limit -n 1024 'open files' 2>/dev/null
limit -t "$2" 'cpu time' 2>/dev/null
limit -d "$3" 'memory' 2>/dev/null
limit -f "$4" 'file size' 2>/dev/null
limit -u "$5" 'processes' 2>/dev/null
exec "$1" -c "$6"
"""


def options(
    *,
    files: Path,
    limits: Limits,
    variables: Mapping[str, str],
    mounts: Sequence[Mount] = (),
    terminal: bool = False,
) -> list[str]:
    """What bubblewrap is told, but for the descriptors that the launcher adds."""
    return [
        *_apart({**ENVIRONMENT, **variables, **(TERMINAL_VARIABLES if terminal else {})}),
        # A terminal's command has a session already: one with a screen of its own.
        *(() if terminal else ("--new-session",)),
        *_programs(),
        *_hidden(),
        *(part for path in CONFIGURATION for part in ("--ro-bind-try", path, path)),
        *("--proc", "/proc", "--dev", "/dev"),
        *_scratch("/dev/shm", limits.scratch_mb // 4),  # noqa: S108
        *_scratch("/tmp", limits.scratch_mb - limits.scratch_mb // 4),  # noqa: S108
        *("--bind", str(files), HOME),
        *_mounts(mounts),
        # The root and /dev are memory, and writable they would be a way around the limit; in /proc
        # lie settings of the kernel.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", HOME),
    ]


def command_line(*, bash: str, limits: Limits, command: str) -> list[str]:
    """The shell that sets the limits, in its own units, and then becomes the command."""
    return [
        *(bash, "-c", SET_LIMITS, "sandbox", bash),
        str(limits.cpu_seconds),
        str(limits.process_mb * 1024),
        str(limits.file_mb * 1024),
        # Bubblewrap's own first process is counted too.
        str(limits.pids + 1),
        command,
    ]


def _apart(variables: Mapping[str, str]) -> Iterator[str]:
    for namespace in NAMESPACES:
        yield f"--unshare-{namespace}"
    yield from ("--disable-userns", "--die-with-parent")
    yield from ("--uid", UID, "--gid", UID, "--hostname", "sandbox", "--clearenv")
    for name, value in variables.items():
        yield from ("--setenv", name, value)


def _programs() -> Iterator[str]:
    for path in PROGRAMS:
        yield from ("--ro-bind", path, path)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = f"/{name}"
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _hidden() -> Iterator[str]:
    """Whoever installs Switchyard below /usr must not show its data and its code there."""
    for folder in (Path(settings.DATA_DIR), ROOT):
        if any(folder.is_relative_to(shown) for shown in PROGRAMS):
            yield from ("--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder))


def _mounts(mounts: Sequence[Mount]) -> Iterator[str]:
    for mount in mounts:
        if mount.source is not None:
            yield "--bind" if mount.writable else "--ro-bind"
            yield from (str(mount.source), mount.target)


def _scratch(path: str, megabytes: int) -> tuple[str, ...]:
    size = str(max(1, megabytes) * 1024 * 1024)
    return ("--perms", "1777", "--size", size, "--tmpfs", path)
