"""Remembers who uses a session's container, so that a new holder of the session can take it away.

A worker writes a claim before it touches the container and looks for it again before it runs a
command. Whoever takes the session over withdraws the claims first and removes the container
second: an older worker then finds its claim gone, or its container.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Literal, TypeAlias
from uuid import UUID

from config.faults import SandboxReplaced
from tools_app.sandbox.container.service import containers_dir
from tools_app.sandbox.leftovers import boot, identity_of

Kind: TypeAlias = Literal["command", "terminal"]
WITHDRAWN = "withdrawn"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`kind.nonce.pid.start.boot`, as the name of an empty file."""

    path: Path

    @property
    def kind(self) -> str:
        return self.path.name.split(".")[0]

    @property
    def nonce(self) -> str:
        return self.path.name.split(".")[1]

    @property
    def identity(self) -> str:
        return self.path.name.split(".", 2)[2]

    @property
    def is_of_this_boot(self) -> bool:
        return self.identity.endswith(boot())

    @property
    def is_dead(self) -> bool:
        """The process that made it is gone."""
        pid = int(self.identity.split(".")[0])
        return self.is_of_this_boot and identity_of(pid) != self.identity

    def check(self) -> None:
        if not self.path.exists():
            raise SandboxReplaced

    def withdraw(self) -> Claim:
        """Still there for whoever has to finish the work, but no longer valid."""
        renamed = self.path.with_name(f"{WITHDRAWN}.{self.nonce}.{self.identity}")
        with suppress(FileNotFoundError):
            self.path.rename(renamed)
        return Claim(path=renamed)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


@contextmanager
def claimed(session_id: UUID, kind: Kind = "command") -> Iterator[Claim]:
    """Hold a claim while the block runs."""
    folder = session_dir(session_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    claim = Claim(path=folder / f"{kind}.{token_hex(6)}.{identity_of(os.getpid())}")
    claim.path.touch()
    try:
        yield claim
    finally:
        claim.forget()


def claims_of(session_id: UUID) -> list[Claim]:
    """Of this boot: another one may be another machine on the same disk."""
    folder = session_dir(session_id)
    try:
        found = [Claim(path=folder / name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return []
    return [claim for claim in found if claim.is_of_this_boot]


def claiming_sessions() -> list[UUID]:
    """Sessions that ever had a container here, and still have a folder."""
    try:
        return [UUID(name) for name in os.listdir(_claims_dir())]
    except FileNotFoundError:
        return []


def last_use(session_id: UUID) -> float:
    """When a claim was last made or given back: the folder's own time of change."""
    try:
        return session_dir(session_id).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def forget_session(session_id: UUID) -> None:
    shutil.rmtree(session_dir(session_id), ignore_errors=True)


def session_dir(session_id: UUID) -> Path:
    return _claims_dir() / str(session_id)


def _claims_dir() -> Path:
    return containers_dir() / "claims"
