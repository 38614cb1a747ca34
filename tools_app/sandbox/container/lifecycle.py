"""The container of a session: found or made, started, taken away.

It carries the installation's mark, so that two installations on one machine leave each other's
containers alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import structlog

from config.faults import SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.container.cgroup import Cgroup, cgroup_of
from tools_app.sandbox.container.claims import WITHDRAWN, Claim, claims_of, session_dir
from tools_app.sandbox.container.engine import Engine, connect
from tools_app.sandbox.container.service import containers_dir

log = structlog.get_logger(__name__)

INSTALLATION, SESSION, ROLE = (f"switchyard.{name}" for name in ("installation", "session", "role"))
COMMANDS, TERMINAL = "commands", "terminal"


@dataclass(frozen=True, kw_only=True)
class Box:
    """A running container. Its id never comes to mean another."""

    id: str
    group: Cgroup


def installation_id() -> str:
    return _installation_id(containers_dir())


@lru_cache(maxsize=8)
def _installation_id(folder: Path) -> str:
    path = folder / "installation"
    if not path.exists():
        beside = folder / f"installation.{os.getpid()}"
        beside.write_text(uuid4().hex[:16])
        # Of two processes that make one, the first wins.
        try:
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    return path.read_text()


def labels(session_id: UUID, role: str) -> dict[str, str]:
    return {INSTALLATION: installation_id(), SESSION: str(session_id), ROLE: role}


def name_of(session_id: UUID, suffix: str = "") -> str:
    return f"switchyard-{installation_id()}-{session_id}{suffix and '-'}{suffix}"


def ensure(engine: Engine, name: str, body: dict[str, Any], *, known: str | None = None) -> Box:
    """The session's container as it should be, running. One that differs is replaced.

    With `known`, only that very container will do.
    """
    found = engine.find(name)
    if known and (found is None or found["Id"] != known):
        raise SandboxReplaced
    shape = body["Labels"]["switchyard.shape"]
    if found and found["Config"]["Labels"].get("switchyard.shape") != shape:
        engine.remove(found["Id"])
        found = None
    if found is None:
        found = _create(engine, name, body)
    if not found["State"]["Running"]:
        start(engine, found["Id"])
        found = engine.find(found["Id"])
    return _box(found)


def _create(engine: Engine, name: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = engine.ask("POST", "/containers/create", body, name=name)
    # Two workers at once: one of them makes it, and both use it.
    if not answer.is_fine and "already in use" not in answer.message:
        raise SandboxUnavailable(f"The container engine refuses: {answer.message}.")
    found = engine.find(name)
    if found is None:
        raise SandboxReplaced
    return found


def start(engine: Engine, container_id: str) -> None:
    answer = engine.ask("POST", f"/containers/{container_id}/start")
    if answer.is_missing:
        raise SandboxReplaced
    if not answer.is_fine:
        raise SandboxUnavailable(_start_failed(answer.message))


def _start_failed(message: str) -> str:
    hint = ""
    if "init" in message and ("catatonit" in message or "not found" in message):
        hint = " Install the package `catatonit`."
    return f"The container does not start: {message}.{hint}"


def _box(found: dict[str, Any] | None) -> Box:
    if found is None or not found["State"]["Pid"]:
        raise SandboxReplaced
    return Box(id=found["Id"], group=cgroup_of(found["State"]["Pid"]))


@contextmanager
def made(engine: Engine, name: str, body: dict[str, Any]) -> Iterator[str]:
    """A container that lives as long as the block."""
    created = engine.need("POST", "/containers/create", body, name=name)
    try:
        yield created["Id"]
    finally:
        engine.remove(created["Id"])


def end_claimed(session_id: UUID) -> int:
    """Take the container away from whoever still uses it, and say how many did."""
    found = [claim for claim in claims_of(session_id) if claim.kind in {"command", WITHDRAWN}]
    return end_claims(session_id, found) if found else 0


def end_claims(session_id: UUID, found: list[Claim]) -> int:
    """Claims go first, so that their owners can no longer make a container anew."""
    withdrawn = [claim.withdraw() for claim in found]
    try:
        remove_containers(session_id, role=COMMANDS)
    except SandboxUnavailable:
        # The claims stay, withdrawn, and the supervisor tries again.
        log.warning("container_not_removed", session_id=str(session_id), exc_info=True)
        return 0
    for claim in withdrawn:
        claim.forget()
    return len(withdrawn)


def remove_containers(session_id: UUID, role: str = "") -> int:
    """Take the session's containers away. Its files stay."""
    if not session_dir(session_id).exists():
        return 0
    engine = connect()
    wanted = labels(session_id, role)
    if not role:
        del wanted[ROLE]
    return sum(engine.remove(found["Id"]) for found in engine.labelled(wanted))
