"""What a keeper is told: a command, and the sandbox to run it in, as a file can hold it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from config.faults import SandboxUnavailable
from tools_app.folder import SessionFolder
from tools_app.sandbox.base import Limits, Mount, Sandbox
from tools_app.sandbox.container import ContainerSandbox
from tools_app.sandbox.local import LocalSandbox
from tools_app.sandbox.network import Network, Posture

Fill = Callable[[UUID, str, str], str]


class Order(BaseModel):
    model_config = ConfigDict(frozen=True)

    kind: Literal["local", "container"]
    workspace_id: UUID
    session_id: UUID
    limits: Limits
    posture: Posture
    hosts: tuple[str, ...]
    mounts: tuple[Mount, ...]
    image: str = ""
    command: str
    seconds: float

    def sandbox(self, fill: Fill) -> LocalSandbox | ContainerSandbox:
        """As it was when the command was ordered, whatever became of its environment."""
        folder = SessionFolder(workspace_id=self.workspace_id, session_id=self.session_id)
        network = Network(
            posture=self.posture, hosts=self.hosts, fill=partial(fill, self.workspace_id)
        )
        if self.kind == "local":
            return LocalSandbox(
                folder=folder, limits=self.limits, network=network, mounts=self.mounts
            )
        return ContainerSandbox(
            folder=folder,
            limits=self.limits,
            network=network,
            mounts=self.mounts,
            image=self.image,
        )


def order_of(sandbox: Sandbox, command: str, *, seconds: float) -> Order:
    """The order to run this command in a sandbox like this one."""
    match sandbox:
        case ContainerSandbox(image=image):
            kind: Literal["local", "container"] = "container"
        case LocalSandbox():
            kind, image = "local", ""
        case _:
            raise SandboxUnavailable("A sandbox of this kind cannot keep a command.")
    return Order(
        kind=kind,
        workspace_id=sandbox.folder.workspace_id,
        session_id=sandbox.folder.session_id,
        limits=sandbox.limits,
        posture=sandbox.network.posture,
        hosts=sandbox.network.hosts,
        mounts=sandbox.mounts,
        image=image,
        command=command,
        seconds=seconds,
    )
