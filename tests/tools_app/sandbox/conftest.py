"""Fixtures for both kinds of sandbox, for tests that hold for either.

Tests of a kind that cannot run here are skipped with the reason; with SWITCHYARD_REQUIRE_SANDBOX
set, as in CI, they fail instead.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from tools_app.exceptions import SandboxUnavailable
from tools_app.files import SessionFolder
from tools_app.sandbox import host
from tools_app.sandbox.base import Limits
from tools_app.sandbox.container.engine import connect, find_socket
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.local import LocalSandbox

IMAGE = "switchyard/base"
#: No working command takes this long, and a broken test ends after it.
TIMEOUT_SECONDS = 60
Either = LocalSandbox | ContainerSandbox

_sleeps = count(1)


def skip_or_fail(reason: str) -> None:
    if os.environ.get("SWITCHYARD_REQUIRE_SANDBOX"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def engine_home() -> Iterator[Path]:
    """Create the folder for the socket of the engine that all tests share."""
    with tempfile.TemporaryDirectory(prefix="switchyard-") as folder:
        yield Path(folder)


@pytest.fixture
def engine(engine_home: Path, settings: Any, data_dir: Path) -> str:
    """Return the socket of a running engine; an idle engine exits and is started again."""
    try:
        with override_settings(DATA_DIR=engine_home):
            settings.CONTAINER_SOCKET = find_socket()
            image = connect().request("GET", f"/images/{IMAGE}/json")
    except SandboxUnavailable as fault:
        skip_or_fail(fault.detail)
    if not image.is_fine:
        skip_or_fail(f"{IMAGE} is not made: run `make containers`")
    return settings.CONTAINER_SOCKET


@pytest.fixture
def local(folder: SessionFolder) -> LocalSandbox:
    try:
        host.find_bwrap()
    except SandboxUnavailable as fault:
        skip_or_fail(fault.detail)
    return LocalSandbox(folder=folder, limits=Limits())


@pytest.fixture
def container(folder: SessionFolder, engine: str) -> Iterator[ContainerSandbox]:
    sandbox = ContainerSandbox(folder=folder, limits=Limits(), image=IMAGE)
    yield sandbox
    sandbox.destroy()


@pytest.fixture(params=["local", "container"])
def sandbox(request: pytest.FixtureRequest) -> Either:
    return request.getfixturevalue(request.param)


@pytest.fixture
def kind(sandbox: Either) -> str:
    return "local" if isinstance(sandbox, LocalSandbox) else "container"


def reconfigured(sandbox: Either, **changes: Any) -> Either:
    """Return the sandbox with other settings, as if its environment had been changed."""
    if isinstance(sandbox, ContainerSandbox):
        changes["_known"] = []
    return replace(sandbox, **changes)


def limited(sandbox: Either, **limits: int) -> Either:
    return reconfigured(sandbox, limits=Limits(**limits))


def run(sandbox: Either, command: str) -> str:
    result = sandbox.execute(command, seconds=TIMEOUT_SECONDS)
    assert result.ended_by == "itself"
    return result.output


def sleep_command() -> str:
    """Return a command that sleeps for long and is unique on this machine."""
    return f"sleep {next(_sleeps)}000.{os.getpid():07}"


def alive(marker: str) -> list[str]:
    """Return the running command lines on this machine that contain the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line and str(os.getpid()) != entry.name:
            found.append(line)
    return found


SYSCALL_HELPER = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    ctypes.set_errno(0)
    return libc.syscall(*arguments), errno.errorcode.get(ctypes.get_errno(), "")
"""


def python(sandbox, files: Path, program: str) -> str:
    (files / "try.py").write_text(SYSCALL_HELPER + program)
    return run(sandbox, "python3 try.py")
