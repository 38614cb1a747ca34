"""Sandboxes: where the commands of a session run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from config.faults import SandboxUnavailable
from tools_app.folder import SessionFolder
from tools_app.sandbox import host
from tools_app.sandbox.base import ExecResult, Limits, Sandbox
from tools_app.sandbox.leftovers import kill_leftovers
from tools_app.sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from agents.models import Environment

__all__ = [
    "ExecResult",
    "LazySandbox",
    "Limits",
    "Sandbox",
    "SessionFolder",
    "kill_leftovers",
    "provision",
]


def provision(environment: Environment | None, folder: SessionFolder) -> Sandbox:
    """A sandbox as the environment describes it, or a refusal that says what is missing.

    No environment means a local sandbox with the default limits and no network.
    """
    if environment is None:
        return _checked(LocalSandbox(folder=folder, limits=Limits()))
    if environment.kind != "local":
        raise SandboxUnavailable(
            f"This installation runs no {environment.kind} sandboxes. "
            "Choose an environment of the kind local."
        )
    if environment.network not in {"none", "full"}:
        raise SandboxUnavailable(
            "A local sandbox cannot hold a command to a list of allowed hosts here. "
            "Choose an environment with the network none or full."
        )
    return _checked(
        LocalSandbox(
            folder=folder,
            limits=_limits(environment),
            share_network=environment.network == "full",
        )
    )


class LazySandbox:
    """Provisions at the first command: most runs never need a sandbox, and none waits for one."""

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
        with self._lock:
            self._made = self._made or self._make()
        return self._made.execute(command, seconds=seconds, on_output=on_output, stopped=stopped)

    def destroy(self) -> None:
        with self._lock:
            if self._made:
                self._made.destroy()
            self._made = None


def _checked(sandbox: LocalSandbox) -> LocalSandbox:
    host.find_bwrap()
    host.find_bash()
    return sandbox


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
