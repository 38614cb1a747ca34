"""The local sandbox: each command runs in its own namespaces, made by bubblewrap.

A command and everything it starts are gone when `execute` returns. Only the session's folder lasts
between commands, which see it as /workspace.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import selectors
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from django.conf import settings

from core.env import ROOT
from core.exceptions import Fault
from tools_app.exceptions import SandboxUnavailable
from tools_app.files import WORKSPACE_PATH, sandbox_gid, sandbox_uid
from tools_app.sandbox import host, seccomp
from tools_app.sandbox.base import EndedBy, ExecResult, Limits, Mount, SandboxBase, Terminal
from tools_app.sandbox.cgroup import CommandGroup, command_group
from tools_app.sandbox.network import serve_network
from tools_app.sandbox.output import CHUNK, WATCH_SECONDS, Output, Source, follow
from tools_app.sandbox.processes import UsageWatch, kill_marked, mark_running
from tools_app.storage import StorageWatch

# ── Bubblewrap's options ─────────────────────────────────────────────────────

#: The user that the command sees itself as.
UID = "1000"
HOME = WORKSPACE_PATH
ENVIRONMENT = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "TMPDIR": "/tmp",  # noqa: S108
    "USER": "agent",
}
#: For the shell of a person: it has a screen, and leaves no history among the session's files.
TERMINAL_VARIABLES = {"HISTFILE": "/dev/null", "TERM": "xterm-256color"}
NAMESPACES = ("user", "pid", "ipc", "uts", "cgroup", "net")
#: Where the host keeps its programs and libraries.
PROGRAMS = ("/usr",)
#: The parts of /etc that programs need to start and to check certificates. None of it is secret.
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
#: The exit code and first words with which the shell reports that a limit could not be set.
UNLIMITED_CODE, UNLIMITED_WORDS = 125, "sandbox: this limit cannot be set: "
#: The limits are set inside, where processes are counted for the sandbox alone.
SET_LIMITS = f"""
exec 9<&-
cd "$HOME" || exit {UNLIMITED_CODE}
limit() {{ ulimit "$1" "$2" || {{ echo "{UNLIMITED_WORDS}$3"; exit {UNLIMITED_CODE}; }}; }}
limit -c 0 'core size' 2>/dev/null
limit -n 1024 'open files' 2>/dev/null
limit -t "$2" 'cpu time' 2>/dev/null
limit -d "$3" 'memory' 2>/dev/null
limit -f "$4" 'file size' 2>/dev/null
limit -u "$5" 'processes' 2>/dev/null
exec "$1" -c "$6"
"""
#: Moves the command into a mount namespace whose mounts it cannot see: its root stays the one that
#: bubblewrap made, which belongs to another namespace. The kernel then lists no mount in /proc, and so
#: no path of the host. Then it drops the capabilities that this needed.
HIDE_MOUNTS = (
    "exec 9</ && exec unshare --mount --propagation unchanged chroot /proc/self/fd/9 "
    'setpriv --bounding-set -all --inh-caps -all --ambient-caps -all "$@"'
)
CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SETPCAP")
MOUNT_TOOLS = ("unshare", "chroot", "setpriv")
MOUNT_LISTS = ("mountinfo", "mounts", "mountstats")


def options(
    *,
    files: Path,
    limits: Limits,
    variables: Mapping[str, str],
    mounts: Sequence[Mount] = (),
    terminal: bool = False,
    hides_mounts: bool = False,
) -> list[str]:
    """Return bubblewrap's options, except for the descriptors that `launch` adds."""
    return [
        *_apart({**ENVIRONMENT, **variables, **(TERMINAL_VARIABLES if terminal else {})}),
        # The command of a terminal has a session already, with its own screen.
        *(() if terminal else ("--new-session",)),
        *_programs(),
        *_hidden(),
        *(part for path in CONFIGURATION for part in ("--ro-bind-try", path, path)),
        *("--proc", "/proc", "--dev", "/dev"),
        *(_hidden_mounts() if hides_mounts else ()),
        *_scratch("/dev/shm", limits.scratch_mb // 4),  # noqa: S108
        *_scratch("/tmp", limits.scratch_mb - limits.scratch_mb // 4),  # noqa: S108
        *("--bind", str(files), HOME),
        *_mounts(mounts),
        # The root and /dev are in memory, so writing there would bypass the limit; /proc has
        # settings of the kernel.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", HOME),
    ]


def command_line(
    *, bash: str, limits: Limits, command: str, hides_mounts: bool = False
) -> list[str]:
    """Return a shell that sets the limits, in its own units, and then becomes the command."""
    return [
        *((bash, "-c", HIDE_MOUNTS, "sandbox") if hides_mounts else ()),
        *(bash, "-c", SET_LIMITS, "sandbox", bash),
        str(limits.cpu_seconds),
        str(limits.process_mb * 1024),
        str(limits.file_mb * 1024),
        # Bubblewrap's first process is counted too.
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
    """Hide the data and the code of Switchyard if it is installed below /usr."""
    for folder in (Path(settings.DATA_DIR), ROOT):
        if any(folder.is_relative_to(shown) for shown in PROGRAMS):
            yield from ("--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder))


def _hidden_mounts() -> Iterator[str]:
    """Allow the setup to hide the mounts, and hide those of the first process, which stays behind."""
    for capability in CAPABILITIES:
        yield from ("--cap-add", capability)
    for name in MOUNT_LISTS:
        yield from ("--ro-bind", "/dev/null", f"/proc/1/{name}")
    yield from ("--size", "4096", "--tmpfs", "/proc/1/task", "--remount-ro", "/proc/1/task")


def _mounts(mounts: Sequence[Mount]) -> Iterator[str]:
    for mount in mounts:
        if mount.source is not None:
            yield "--bind" if mount.writable else "--ro-bind"
            yield from (str(mount.source), mount.target)


def _scratch(path: str, megabytes: int) -> tuple[str, ...]:
    size = str(max(1, megabytes) * 1024 * 1024)
    return ("--perms", "1777", "--size", size, "--tmpfs", path)


# ── Starting bubblewrap, with the command held back until it is released ─────

#: The time within which bubblewrap reports its start, and within which it ends once it is killed.
PATIENCE_SECONDS = 10
MESSAGE_LENGTH = 500


@dataclass(frozen=True, kw_only=True)
class Launched:
    """A sandbox whose command waits for `release`."""

    process: subprocess.Popen[bytes]
    #: The output of the command; with a terminal, only error messages of bubblewrap.
    output: IO[bytes]
    #: Becomes readable when bubblewrap has ended, and with it the command.
    handle: int
    first_pid: int
    #: Pins the first process of the sandbox, so that no other can be mistaken for it.
    first_handle: int
    gate: IO[bytes]
    status: IO[bytes]

    def release(self) -> None:
        # If the machine runs out of memory all the same, the kernel ends this first.
        with suppress(OSError):
            Path(f"/proc/{self.first_pid}/oom_score_adj").write_text("1000")
        self.gate.write(b"\n")
        self.gate.close()

    def exit_code(self) -> int | None:
        """Return the command's exit code, or None if it has none."""
        self.process.wait(PATIENCE_SECONDS)
        return _status_line(self.status).get("exit-code")

    def kill(self) -> None:
        """Kill the first process, with which the kernel ends all others, and wait for its end."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.first_handle, signal.SIGKILL)
        _readable(self.first_handle)


@contextmanager
def launch(
    bwrap: str,
    options: Sequence[str],
    command: Sequence[str],
    *,
    group: CommandGroup | None,
    screen: int | None = None,
) -> Iterator[Launched]:
    """Start a sandbox in a control group. No part of it outlives the block.

    `screen` is the inner side of a terminal, which becomes the controlling terminal of the command.
    """
    with ExitStack() as stack:
        status, status_end = _pipe(stack)
        gate_end, gate = _pipe(stack)
        given = {
            "--json-status-fd": status_end.fileno(),
            "--block-fd": gate_end.fileno(),
            # Without a control group, the size of socket buffers must be known to count them.
            "--seccomp": _document(stack, seccomp.program(fixed_buffers=group is None)),
        }
        files = {
            "/etc/passwd": _document(stack, PASSWD.encode()),
            "/etc/group": _document(stack, GROUP.encode()),
        }
        told = [part for option, fd in given.items() for part in (option, str(fd))]
        told += [part for path, fd in files.items() for part in ("--file", str(fd), path)]
        script = _document(stack, "\0".join([*told, *options]).encode())
        output, output_end = _pipe(stack)
        process = _start(
            [bwrap, "--args", str(script), "--", *command],
            pass_fds=(script, *given.values(), *files.values()),
            output=output_end if screen is None else screen,
            screen=screen,
        )
        stack.callback(_reap, process)
        status_end.close()
        gate_end.close()
        output_end.close()
        pid, first_handle = _first_process(process, status, output)
        stack.callback(os.close, first_handle)
        handle = os.pidfd_open(process.pid)
        stack.callback(os.close, handle)
        launched = Launched(
            process=process,
            output=output,
            handle=handle,
            first_pid=pid,
            first_handle=first_handle,
            gate=gate,
            status=status,
        )
        stack.callback(launched.kill)
        if group:
            group.add(pid)
        yield launched


def _start(
    arguments: list[str], *, pass_fds: Sequence[int], output: IO[bytes] | int, screen: int | None
) -> subprocess.Popen[bytes]:
    """Start bubblewrap. As root, drop to the unprivileged user first."""
    identity: dict[str, Any] = {}
    if screen is not None:
        # Creates a session with the terminal on standard input as its controlling terminal.
        arguments = [host.find_setsid(), "--ctty", *arguments]
    if os.geteuid() == 0:
        identity = {"user": sandbox_uid(), "group": sandbox_gid(), "extra_groups": []}
    try:
        return subprocess.Popen(  # noqa: S603
            arguments,
            stdin=subprocess.DEVNULL if screen is None else screen,
            stdout=output,
            stderr=subprocess.STDOUT,
            bufsize=0,
            cwd="/",
            # The environment of the first process can be read from inside.
            env={},
            pass_fds=pass_fds,
            start_new_session=screen is None,
            umask=0o022,
            **identity,
        )
    except OSError as error:
        raise SandboxUnavailable(f"The sandbox cannot be started: {error}.") from error


def _first_process(
    process: subprocess.Popen[bytes], status: IO[bytes], output: IO[bytes]
) -> tuple[int, int]:
    pid = _status_line(status).get("child-pid") if _readable(status.fileno()) else None
    if pid is not None:
        with suppress(ProcessLookupError):
            return pid, os.pidfd_open(pid)
    process.kill()
    process.wait(PATIENCE_SECONDS)
    raise refusal(output.read(MESSAGE_LENGTH).decode(errors="replace"))


def refusal(said: str) -> SandboxUnavailable:
    """Return an error with bubblewrap's message, and a hint for its most common cause."""
    hint = ""
    if "namespace" in said or "uid map" in said:
        hint = (
            " This system does not let unprivileged users create namespaces. On Ubuntu, give "
            "bubblewrap an AppArmor profile (`apt install apparmor-profiles`) or run `sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0`; in a container, allow user namespaces."
        )
    return SandboxUnavailable(
        f"The sandbox cannot be started: {said[:MESSAGE_LENGTH].strip()}{hint}"
    )


def _status_line(status: IO[bytes]) -> dict[str, int]:
    line = status.readline()
    return json.loads(line) if line else {}


def _readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(PATIENCE_SECONDS))


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(PATIENCE_SECONDS)


def _pipe(stack: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return (
        stack.enter_context(os.fdopen(read, "rb")),
        stack.enter_context(os.fdopen(write, "wb", buffering=0)),
    )


def _document(stack: ExitStack, content: bytes) -> int:
    """Return a descriptor from which bubblewrap reads this content."""
    fd = os.memfd_create("document")
    stack.callback(os.close, fd)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


# ── The sandbox and its terminal ─────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class LocalSandbox(SandboxBase):
    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        until = time.monotonic() + min(seconds, self.limits.wall_seconds)
        output = Output(on_output)
        with ExitStack() as stack:
            storage = self.watch_storage()
            stack.callback(storage.finish)
            group = stack.enter_context(command_group(self.limits))
            launching = launch(host.find_bwrap(), *self._confined(command, storage), group=group)
            launched = stack.enter_context(launching)
            first_pid = launched.first_pid
            stack.enter_context(mark_running(self.folder.session_id, first_pid))
            stack.enter_context(serve_network(self.network, first_pid))
            launched.release()
            fd = launched.output.fileno()
            source = Source(fd=fd, receive=lambda: os.read(fd, CHUNK), output=output)
            watch = UsageWatch(
                first_pid=first_pid, storage=storage, limits=self.limits, group=group
            )
            ended_by = follow(source, launched.handle, watch, until, stopped or threading.Event())
            launched.kill()
            # All processes are gone, so the pipe has an end.
            source.drain()
            exit_code = launched.exit_code() if ended_by == "itself" else None
            if exit_code != 0 and ended_by == "itself" and watch.out_of_memory():
                exit_code, ended_by = None, "memory"
        return _result(exit_code, launched.process.returncode, output.text(), ended_by)

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        storage = self.watch_storage()
        confined = self._confined(command or "exec bash -i", storage, terminal=True)
        return LocalTerminal(self, storage, *confined, columns=columns, rows=rows)

    def destroy(self) -> None:
        kill_marked(self.folder.session_id)
        kill_marked(self.folder.session_id, kind="terminal")

    def _confined(
        self, command: str, storage: StorageWatch, *, terminal: bool = False
    ) -> tuple[list[str], list[str]]:
        """Return bubblewrap's options, and the command line that it runs."""
        told = options(
            files=self.make(),
            limits=self.limits,
            variables=self.network.variables,
            mounts=self.mounts,
            terminal=terminal,
            hides_mounts=can_hide_mounts(),
        )
        file_mb = min(self.limits.file_mb, storage.file_mb)
        limits = self.limits.model_copy(update={"file_mb": file_mb})
        return told, command_line(
            bash=host.find_bash(), limits=limits, command=command, hides_mounts=can_hide_mounts()
        )


@cache
def can_hide_mounts() -> bool:
    """Return whether a command can be kept from seeing where its files are on this machine.

    Some systems let bubblewrap's commands have no capabilities at all, not even in its namespaces.
    """
    if not all(shutil.which(tool, path=host.PLACES) for tool in MOUNT_TOOLS):
        return False
    bash, limits = host.find_bash(), Limits()
    told = options(files=Path("/usr"), limits=limits, variables={}, hides_mounts=True)
    line = command_line(
        bash=bash, limits=limits, command="cat /proc/self/mountinfo", hides_mounts=True
    )
    try:
        with launch(host.find_bwrap(), told, line, group=None) as launched:
            launched.release()
            return launched.output.read() == b"" and launched.exit_code() == 0
    except SandboxUnavailable:
        return False


def _result(
    exit_code: int | None, launcher_code: int | None, output: str, ended_by: EndedBy
) -> ExecResult:
    if ended_by == "itself" and exit_code is None:
        if launcher_code is not None and launcher_code > 0:
            raise refusal(output)
        ended_by = "stop"  # Bubblewrap itself was killed.
    if exit_code == UNLIMITED_CODE and output.startswith(UNLIMITED_WORDS):
        limit = output.splitlines()[0].removeprefix(UNLIMITED_WORDS)
        raise SandboxUnavailable(
            f"The sandbox cannot set this limit here: {limit}. The process that started Switchyard "
            "has a lower hard limit. Raise it (see `ulimit -aH`), or lower the environment's limit."
        )
    return ExecResult(exit_code=exit_code, output=output, ended_by=ended_by)


class LocalTerminal:
    """A shell on a pseudo-terminal. One thread reads and another writes; any thread may close it."""

    def __init__(
        self,
        sandbox: SandboxBase,
        storage: StorageWatch,
        options: list[str],
        command: list[str],
        *,
        columns: int,
        rows: int,
    ) -> None:
        self._storage = storage
        self._closing, self._started = threading.Event(), threading.Event()
        self._fault: Exception | None = None
        self._reading = threading.Lock()
        self._screen, inner = pty.openpty()
        self.resize(columns, rows)
        # Bubblewrap ends with the thread that started it, so that thread lives as long.
        self._thread = threading.Thread(
            target=self._live, args=(sandbox, options, command, inner), daemon=True, name="terminal"
        )
        self._thread.start()
        self._started.wait()
        if self._fault is not None:
            raise self._fault

    def read(self, seconds: float) -> bytes | None:
        with self._reading, suppress(OSError, ValueError):
            ready, _, _ = select.select([self._screen], [], [], seconds)
            if not ready:
                return b""
            # When the last process inside has closed its end, this raises or returns nothing.
            return os.read(self._screen, CHUNK) or None
        return None

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                data = data[os.write(self._screen, data) :]

    def resize(self, columns: int, rows: int) -> None:
        with suppress(OSError):
            fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        with self._reading:
            fd, self._screen = self._screen, -1
            if fd >= 0:
                os.close(fd)

    def _live(
        self, sandbox: SandboxBase, options: list[str], command: list[str], inner: int
    ) -> None:
        try:
            with ExitStack() as stack:
                stack.callback(self._storage.finish)
                group = stack.enter_context(command_group(sandbox.limits))
                launched = self._launch(stack, sandbox, options, command, inner, group)
                watch = UsageWatch(
                    first_pid=launched.first_pid,
                    storage=self._storage,
                    limits=sandbox.limits,
                    group=group,
                )
                self._started.set()
                while not self._closing.wait(WATCH_SECONDS):
                    # No caller waits for a terminal, so its limits are watched here.
                    if launched.process.poll() is not None or watch.exceeded():
                        return
        except (Fault, OSError) as error:
            self._fault = error
        finally:
            self._started.set()

    def _launch(
        self,
        stack: ExitStack,
        sandbox: SandboxBase,
        options: list[str],
        command: list[str],
        inner: int,
        group: CommandGroup | None,
    ) -> Launched:
        try:
            if os.geteuid() == 0:
                os.fchown(inner, sandbox_uid(), sandbox_gid())
            launching = launch(host.find_bwrap(), options, command, screen=inner, group=group)
            launched = stack.enter_context(launching)
        finally:
            os.close(inner)
        # Not marked as a command: a new run ends what an older run left, but not people's terminals.
        pid = launched.first_pid
        stack.enter_context(mark_running(sandbox.folder.session_id, pid, kind="terminal"))
        stack.enter_context(serve_network(sandbox.network, pid))
        launched.release()
        return launched
