"""Provisions the sandboxes in which the commands of a session run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.db import connection
from pydantic import ValidationError

from tools_app.exceptions import SandboxUnavailable
from tools_app.files import Entry, SessionFolder
from tools_app.sandbox import host
from tools_app.sandbox.base import ExecResult, Limits, Mount, Sandbox, Terminal
from tools_app.sandbox.container import ContainerSandbox, end_session_claims
from tools_app.sandbox.host import MOST_BYTES, MOST_ENTRIES
from tools_app.sandbox.local.processes import kill_marked
from tools_app.sandbox.local.sandbox import LocalSandbox
from tools_app.sandbox.network.namespace import Network

if TYPE_CHECKING:
    from agents.models import Environment

__all__ = [
    "ExecResult",
    "LazySandbox",
    "Limits",
    "Mount",
    "Sandbox",
    "SessionFolder",
    "Terminal",
    "fill_secrets",
    "kill_leftovers",
    "provision",
]


def provision(
    environment: Environment, folder: SessionFolder, mounts: tuple[Mount, ...] = ()
) -> Sandbox:
    """Return a sandbox as the environment describes it. Raise SandboxUnavailable if it cannot run."""
    limits, network = _limits(environment), _network(environment)
    if environment.kind == "container":
        return ContainerSandbox(
            folder=folder,
            limits=limits,
            network=network,
            image=environment.image or settings.CONTAINER_IMAGE,
            mounts=mounts,
        )
    return _checked(LocalSandbox(folder=folder, limits=limits, network=network, mounts=mounts))


def kill_leftovers(session_id: UUID) -> int:
    """End every command of the session that still runs on this machine; return their number."""
    return kill_marked(session_id) + end_session_claims(session_id)


class LazySandbox:
    """Provisions the sandbox on first use: most runs need none, and no run waits for one."""

    def __init__(self, make: Callable[[], Sandbox]) -> None:
        self._make = make
        self._made: Sandbox | None = None
        self._lock = threading.Lock()

    def execute(
        self,
        command: str,
        *,
        seconds: float,
        on_output: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> ExecResult:
        return self._sandbox().execute(
            command, seconds=seconds, on_output=on_output, stopped=stopped
        )

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        return self._sandbox().open_terminal(command, columns=columns, rows=rows)

    def read(self, path: str, *, limit: int = MOST_BYTES) -> bytes:
        return self._sandbox().read(path, limit=limit)

    def write(self, path: str, content: bytes) -> bool:
        return self._sandbox().write(path, content)

    def list(self, path: str = ".", *, limit: int = MOST_ENTRIES) -> Sequence[Entry]:
        return self._sandbox().list(path, limit=limit)

    def destroy(self) -> None:
        with self._lock:
            if self._made:
                self._made.destroy()
            self._made = None

    def _sandbox(self) -> Sandbox:
        with self._lock:
            self._made = self._made or self._make()
            return self._made


def _checked(sandbox: LocalSandbox) -> LocalSandbox:
    host.find_bwrap()
    host.find_bash()
    return sandbox


def _network(environment: Environment) -> Network:
    match environment.network:
        case "none" | "allowlist" | "full" as posture:
            return Network(
                posture=posture,
                hosts=tuple(environment.allowed_hosts),
                fill=partial(fill_secrets, environment.workspace_id),
            )
        case other:
            raise SandboxUnavailable(f"There is no network mode {other!r}.")


def fill_secrets(workspace_id: UUID, value: str, host: str) -> str:
    """Fill in secrets for a host. Runs on a thread of the proxy, so it closes its connection."""
    if "{{" not in value:
        return value
    from tenants.vault import fill_bound  # Imports models; a sandbox itself needs no database.

    try:
        return fill_bound(workspace_id, value, host)
    finally:
        connection.close()


def _limits(environment: Environment) -> Limits:
    try:
        return Limits.model_validate(environment.limits)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(str(part) for part in fault["loc"])
        raise SandboxUnavailable(
            f"The limits of the environment {environment.name} are not valid: "
            f"{name}: {fault['msg']}."
        ) from error
