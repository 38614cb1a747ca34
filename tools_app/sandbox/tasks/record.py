"""The record of a command: a folder of small files that outlives every process.

`order` says what to run, `claim` which process keeps it, `output` is its output, `stop` asks for its
end, and `ended` holds its result. Each but the output is created atomically, and only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from tools_app.exceptions import SandboxUnavailable
from tools_app.files import SessionFolder
from tools_app.sandbox.base import EndedBy, Limits, Mount, Sandbox
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.local import LocalSandbox
from tools_app.sandbox.network import Network, Posture
from tools_app.sandbox.processes import process_identity

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
        """Return the sandbox as it was when the command was ordered, whatever has changed since."""
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


def make_order(sandbox: Sandbox, command: str, *, seconds: float) -> Order:
    """Return the order to run this command in a sandbox like this one."""
    match sandbox:
        case ContainerSandbox(image=image):
            kind: Literal["local", "container"] = "container"
        case LocalSandbox():
            kind, image = "local", ""
        case _:
            raise SandboxUnavailable("A sandbox of this kind cannot run a command for a task.")
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


class Ending(BaseModel):
    """How a command ended, or why it could not start."""

    model_config = ConfigDict(frozen=True)

    exit_code: int | None = None
    ended_by: EndedBy = "itself"
    output: str = ""
    #: The reason given with the request to end it.
    reason: str = ""
    #: The code and the detail of the fault that kept it from running, or from being followed.
    fault: str = ""
    detail: str = ""
    #: The id of the container, which is charged for; empty for a command on this machine.
    container: str = ""
    #: By this machine's clock.
    began_at: float = 0.0
    ended_at: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Record:
    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def log(self) -> Path:
        """The keeper's own error messages."""
        return self.folder / "keeper.log"

    # ── Written by the process that wants the command ────────────────────────────────────────

    def write_order(self, order: Order) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_once("order", order.model_dump_json().encode())

    def ask_to_stop(self, reason: str) -> None:
        """Ask for the end of the command. A keeper that claims it from now on does not start it."""
        self._write_once("stop", reason.encode())

    # ── Written by its keeper ────────────────────────────────────────────────────────────────

    def claim(self) -> bool:
        """Become its only keeper. Return False if it has or had one: it is never started again."""
        return self._write_once("claim", process_identity(os.getpid()).encode())

    def end(self, ending: Ending) -> None:
        self._write_once("ended", ending.model_dump_json().encode())

    @contextmanager
    def journal(self) -> Iterator[Callable[[str], None]]:
        """Yield a function that appends output where all readers see it at once."""
        with self.output.open("ab", buffering=0) as file:

            def write(text: str) -> None:
                data = memoryview(text.encode())
                while data:
                    data = data[file.write(data) or 0 :]

            yield write

    # ── Read by any process ──────────────────────────────────────────────────────────────────

    def order(self) -> Order:
        return Order.model_validate_json((self.folder / "order").read_bytes())

    def keeper(self) -> str:
        """Return the identity of its present or past keeper; empty if it was never started."""
        return self._read("claim").decode()

    def stop_reason(self) -> str | None:
        path = self.folder / "stop"
        return self._read("stop").decode() if path.exists() else None

    def ending(self) -> Ending | None:
        told = self._read("ended")
        return Ending.model_validate_json(told) if told else None

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return b""

    def _write_once(self, name: str, content: bytes) -> bool:
        """Create a file atomically. Return False if there is one, or another process was faster."""
        beside = self.folder / f".{name}.{token_hex(6)}"
        with beside.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, self.folder / name)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        return True


def list_records(folder: Path) -> list[Record]:
    """Return the records of all commands that were ever ordered in this folder."""
    try:
        found = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [Record(folder=one) for one in found if one.is_dir()]
