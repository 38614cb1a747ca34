"""Remembers which workers use a session's container, so that a new worker can take it away.

A worker writes a claim before it touches the container and checks it again before it runs a
command. A worker that takes over the session withdraws the claims first and removes the container
second: the older worker then finds its claim gone, or its container.
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

from tools_app.exceptions import SandboxReplaced
from tools_app.sandbox.container.engine import containers_dir
from tools_app.sandbox.processes import boot, process_identity

Kind: TypeAlias = Literal["command", "terminal"]
WITHDRAWN = "withdrawn"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim on a container: an empty file with the name `kind.nonce.pid.start.boot`."""

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
        """Whether the process that made the claim is gone."""
        pid = int(self.identity.split(".")[0])
        return self.is_of_this_boot and process_identity(pid) != self.identity

    def check(self) -> None:
        if not self.path.exists():
            raise SandboxReplaced

    def withdraw(self) -> Claim:
        """Make the claim invalid, but keep the file until its container is removed."""
        renamed = self.path.with_name(f"{WITHDRAWN}.{self.nonce}.{self.identity}")
        with suppress(FileNotFoundError):
            self.path.rename(renamed)
        return Claim(path=renamed)

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


@contextmanager
def claim_container(session_id: UUID, kind: Kind = "command") -> Iterator[Claim]:
    """Hold a claim while the block runs."""
    folder = session_dir(session_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    claim = Claim(path=folder / f"{kind}.{token_hex(6)}.{process_identity(os.getpid())}")
    claim.path.touch()
    try:
        yield claim
    finally:
        claim.forget()


def list_claims(session_id: UUID) -> list[Claim]:
    """Return the claims of this boot: another boot may be another machine on the same disk."""
    folder = session_dir(session_id)
    try:
        found = [Claim(path=folder / name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return []
    return [claim for claim in found if claim.is_of_this_boot]


def sessions_with_claims() -> list[UUID]:
    """Return the sessions that had a container here and still have a folder of claims."""
    try:
        return [UUID(name) for name in os.listdir(_claims_dir())]
    except FileNotFoundError:
        return []


def last_use(session_id: UUID) -> float:
    """Return when a claim was last made or released, which is when the folder changed."""
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
