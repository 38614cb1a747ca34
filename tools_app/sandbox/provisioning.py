"""Provisions the sandboxes of sessions, and reports which kinds this machine can run."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db import connection
from pydantic import ValidationError

from core.exceptions import Fault
from core.ids import uuid7
from core.plugins import add, check_callable, check_new, refuse
from tools_app.exceptions import SandboxUnavailable
from tools_app.files import SessionFolder
from tools_app.sandbox import host
from tools_app.sandbox.base import ExecResult, Limits, Mount, Sandbox, Terminal
from tools_app.sandbox.cgroup import UNAVAILABLE, GroupAbility, disk_device, group_ability
from tools_app.sandbox.container import lifecycle
from tools_app.sandbox.container.claims import forget_session
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.local import LocalSandbox, can_hide_mounts
from tools_app.sandbox.network import Network
from tools_app.sandbox.processes import kill_marked, marked_sessions
from tools_app.sandbox.slots import check_containers, command_slot

if TYPE_CHECKING:
    from agents.models import Environment


#: What makes a sandbox of each kind that a plugin brings.
SANDBOXES: dict[str, Callable[..., Sandbox]] = {}


def register_sandbox(
    name: str, make: Callable[..., Sandbox], *, title: str, about: str = ""
) -> None:
    """Add a kind of sandbox. Environments choose it by its name.

    `make` is called with `folder`, `limits`, `network`, `mounts` and `image`, as a subclass of
    `SandboxBase` with a field `image` is. It must enforce the limits and the network itself.
    """
    # Not at the top: the keeper of a command imports this module without Django's models.
    from agents.environments import KINDS

    check_new(SANDBOXES, name, kind="sandbox")
    check_callable(make, kind="sandbox", what="make")
    if name in KINDS:
        refuse("sandbox", f"the name {name!r} is taken.")
    if not title:
        refuse("sandbox", "it needs a title, which people see.")
    add(SANDBOXES, name, make, kind="sandbox")
    add(KINDS, name, (title, about), kind="environment kind")


def provision(
    environment: Environment, folder: SessionFolder, mounts: tuple[Mount, ...] = ()
) -> Sandbox:
    """Return a sandbox as the environment describes it. Raise SandboxUnavailable if it cannot run."""
    limits, network = _limits(environment), _network(environment)
    if environment.kind == "container":
        check_containers(folder)
        return ContainerSandbox(
            folder=folder,
            limits=limits,
            network=network,
            image=environment.image or settings.CONTAINER_IMAGE,
            mounts=mounts,
        )
    if environment.kind != "local":
        return _made_by_plugin(environment, folder, limits, network, mounts)
    host.find_bwrap()
    host.find_bash()
    return LocalSandbox(folder=folder, limits=limits, network=network, mounts=mounts)


def _made_by_plugin(
    environment: Environment,
    folder: SessionFolder,
    limits: Limits,
    network: Network,
    mounts: tuple[Mount, ...],
) -> Sandbox:
    make = SANDBOXES.get(environment.kind)
    if make is None:
        raise SandboxUnavailable(
            f"No installed plugin brings sandboxes of the kind {environment.kind!r}."
        )
    return make(
        folder=folder, limits=limits, network=network, mounts=mounts, image=environment.image
    )


def kill_leftovers(session_id: UUID) -> int:
    """End every command of the session that still runs on this machine; return their number."""
    return kill_marked(session_id) + lifecycle.end_session_claims(session_id)


class LazySandbox:
    """Provisions the sandbox on first use: most runs need none, and no run waits for one.

    With a workspace, its commands count towards the limit of that workspace.
    """

    def __init__(self, make: Callable[[], Sandbox], *, workspace_id: UUID | None = None) -> None:
        self._make = make
        self._workspace_id = workspace_id
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
        sandbox = self._sandbox()
        slot = command_slot(self._workspace_id, stopped) if self._workspace_id else nullcontext()
        with slot:
            return sandbox.execute(command, seconds=seconds, on_output=on_output, stopped=stopped)

    def open_terminal(self, command: str = "", *, columns: int = 80, rows: int = 24) -> Terminal:
        return self._sandbox().open_terminal(command, columns=columns, rows=rows)

    def destroy(self) -> None:
        with self._lock:
            if self._made:
                self._made.destroy()
            self._made = None

    def _sandbox(self) -> Sandbox:
        with self._lock:
            self._made = self._made or self._make()
            return self._made


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


# ── Report ───────────────────────────────────────────────────────────────────

Probe: TypeAlias = LocalSandbox | ContainerSandbox
SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Ability:
    """A kind of sandbox, and why it does not work here, if so."""

    name: str
    lack: str = ""


@dataclass(frozen=True, kw_only=True)
class Running:
    session_id: UUID
    kind: str
    role: str


def abilities() -> list[Ability]:
    """Run a command in a sandbox of each kind, without and with a network."""
    kinds: dict[str, Callable[..., Probe]] = {
        "local": LocalSandbox,
        "container": partial(ContainerSandbox, image=settings.CONTAINER_IMAGE),
    }
    return [
        Ability(name=f"{kind}, network {network.posture}", lack=_lack(make, network))
        for kind, make in kinds.items()
        for network in (Network(), Network(posture="full"))
    ]


def enforcement() -> list[str]:
    """Describe how strictly this machine holds the limits of local commands."""
    try:
        host.find_bwrap()
        hides_mounts = can_hide_mounts()
    except SandboxUnavailable:
        return []
    ability = group_ability()
    memory = "limited by a control group" if ability.memory else f"measured. {UNAVAILABLE}"
    paths = "hidden" if hides_mounts else "visible in /proc/self/mountinfo"
    return [
        f"local, memory: {memory}",
        "local and container, disk: one file limited by the kernel, all files measured",
        f"local, speed of the disk: {_disk_speed(ability)}",
        f"local, paths of this machine: {paths}",
    ]


def _disk_speed(ability: GroupAbility) -> str:
    """Say how fast local commands may read and write, and if there is no limit, why."""
    rate = f"limited to {settings.SANDBOX_DISK_MB_PER_SECOND:,} MB per second by a control group"
    if ability.disk:
        return f"{rate}, except for writes that the kernel delays" if ability.is_old else rate
    if not settings.SANDBOX_DISK_MB_PER_SECOND:
        return "not limited. SANDBOX_DISK_MB_PER_SECOND is 0"
    if not disk_device(Path(settings.DATA_DIR)):
        return "not limited. DATA_DIR is not on one disk of this machine"
    return "not limited. Switchyard may not make control groups with disk limits here"


def running_sandboxes() -> list[Running]:
    found = [
        Running(session_id=session_id, kind="local", role=role)
        for role in ("command", "terminal")
        for session_id in marked_sessions(kind=role)
    ]
    try:
        boxes = lifecycle.list_containers()
    except Fault:
        return found
    return found + [
        Running(
            session_id=UUID(box["Labels"][lifecycle.SESSION]),
            kind="container",
            role=box["Labels"][lifecycle.ROLE],
        )
        for box in boxes
    ]


def _lack(make: Callable[..., Probe], network: Network) -> str:
    folder = SessionFolder(workspace_id=UUID(int=0), session_id=uuid7())
    sandbox = make(folder=folder, limits=Limits(), network=network)
    try:
        result = sandbox.execute("echo it works", seconds=SECONDS)
        return "" if result.output == "it works\n" else result.output or result.ended_by
    except Fault as fault:
        return fault.detail
    finally:
        _clear(sandbox)


def _clear(sandbox: Probe) -> None:
    """Remove the container and the files of the session that never existed."""
    with suppress(Fault):
        sandbox.destroy()
    forget_session(sandbox.folder.session_id)
    shutil.rmtree(sandbox.folder.root, ignore_errors=True)
