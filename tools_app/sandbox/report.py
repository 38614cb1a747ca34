"""Reports which sandboxes this machine can run, by trying each, and which are running."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from django.conf import settings

from core.exceptions import Fault
from core.ids import uuid7
from tools_app.files import SessionFolder
from tools_app.sandbox.base import Limits
from tools_app.sandbox.container.claims import forget_session
from tools_app.sandbox.container.lifecycle import ROLE, SESSION, list_containers
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.local.processes import marked_sessions
from tools_app.sandbox.local.sandbox import LocalSandbox
from tools_app.sandbox.network.namespace import Network

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
    return [
        Ability(name=f"{kind}, network {network.posture}", lack=_lack(make, network))
        for kind, make in (("local", _local), ("container", _container))
        for network in (Network(), Network(posture="full"))
    ]


def running_sandboxes() -> list[Running]:
    found = [
        Running(session_id=session_id, kind="local", role=role)
        for role in ("command", "terminal")
        for session_id in marked_sessions(kind=role)
    ]
    try:
        boxes = list_containers()
    except Fault:
        return found
    return found + [
        Running(session_id=UUID(box["Labels"][SESSION]), kind="container", role=box["Labels"][ROLE])
        for box in boxes
    ]


def _lack(make: Callable[[SessionFolder, Network], Probe], network: Network) -> str:
    folder = SessionFolder(workspace_id=UUID(int=0), session_id=uuid7())
    sandbox = make(folder, network)
    try:
        result = sandbox.execute("echo it works", seconds=SECONDS)
        return "" if result.output == "it works\n" else result.output or result.ended_by
    except Fault as fault:
        return fault.detail
    finally:
        _clear(sandbox)


def _local(folder: SessionFolder, network: Network) -> Probe:
    return LocalSandbox(folder=folder, limits=Limits(), network=network)


def _container(folder: SessionFolder, network: Network) -> Probe:
    image = settings.CONTAINER_IMAGE
    return ContainerSandbox(folder=folder, limits=Limits(), network=network, image=image)


def _clear(sandbox: Probe) -> None:
    """Remove the container and the files of the session that never existed."""
    with suppress(Fault):
        sandbox.destroy()
    forget_session(sandbox.folder.session_id)
    shutil.rmtree(sandbox.folder.root, ignore_errors=True)
