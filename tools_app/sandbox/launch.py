"""Starts bubblewrap, and lets go of the command only when the caller is ready for it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from config.faults import SandboxUnavailable
from tools_app.folder import acting_gid, acting_uid
from tools_app.sandbox import seccomp
from tools_app.sandbox.confinement import GROUP, PASSWD
from tools_app.sandbox.host import find_setsid

#: Bubblewrap says within this time that it has started, and ends within it once killed.
PATIENCE_SECONDS = 10
MESSAGE_LENGTH = 500


@dataclass(frozen=True, kw_only=True)
class Launched:
    """A sandbox whose command waits for `release`."""

    process: subprocess.Popen[bytes]
    #: What the command says; with a terminal, only what bubblewrap itself complains of.
    output: IO[bytes]
    #: Readable when bubblewrap has ended, and with it the command.
    handle: int
    first_pid: int
    #: Holds on to the sandbox's first process, so that no other can be taken for it.
    first_handle: int
    gate: IO[bytes]
    status: IO[bytes]

    def release(self) -> None:
        # Should the machine run out of memory all the same, this is what the kernel ends first.
        with suppress(OSError):
            Path(f"/proc/{self.first_pid}/oom_score_adj").write_text("1000")
        self.gate.write(b"\n")
        self.gate.close()

    def exit_code(self) -> int | None:
        """The command's own exit code; None when it never came to that."""
        self.process.wait(PATIENCE_SECONDS)
        return _status_line(self.status).get("exit-code")

    def kill(self) -> None:
        """End the first process, with which the kernel ends all others, and see it gone."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.first_handle, signal.SIGKILL)
        _readable(self.first_handle)


@contextmanager
def launch(
    bwrap: str, options: Sequence[str], command: Sequence[str], *, screen: int | None = None
) -> Iterator[Launched]:
    """Start a sandbox. Whatever happens, no part of it outlives the block.

    `screen` is the inner side of a terminal, which becomes the command's own.
    """
    with ExitStack() as stack:
        status, status_end = _pipe(stack)
        gate_end, gate = _pipe(stack)
        given = {
            "--json-status-fd": status_end.fileno(),
            "--block-fd": gate_end.fileno(),
            "--seccomp": _document(stack, seccomp.program()),
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
        yield launched


def _start(
    arguments: list[str], *, pass_fds: Sequence[int], output: IO[bytes] | int, screen: int | None
) -> subprocess.Popen[bytes]:
    """As root, become the user without rights before bubblewrap even starts."""
    identity: dict[str, Any] = {}
    if screen is not None:
        # Makes a session, and the terminal on its standard input that session's own.
        arguments = [find_setsid(), "--ctty", *arguments]
    if os.geteuid() == 0:
        identity = {"user": acting_uid(), "group": acting_gid(), "extra_groups": []}
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
    """What bubblewrap said, and what to do about the reason that is most common."""
    hint = ""
    if "namespace" in said or "uid map" in said:
        hint = (
            " This system does not let ordinary users make namespaces. On Ubuntu give bubblewrap "
            "an AppArmor profile (`apt install apparmor-profiles`) or run `sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0`; in a container allow user namespaces."
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
    """A descriptor from which bubblewrap reads this content."""
    fd = os.memfd_create("document")
    stack.callback(os.close, fd)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
