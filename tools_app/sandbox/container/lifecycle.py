"""Creates, replaces and removes the containers of sessions."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.conf import settings

from tools_app.exceptions import SandboxReplaced, SandboxUnavailable
from tools_app.files import sandbox_gid, sandbox_uid
from tools_app.sandbox import seccomp
from tools_app.sandbox.base import Limits, Mount, SandboxBase
from tools_app.sandbox.cgroup import Cgroup, cgroup_of, pids_max
from tools_app.sandbox.container import claims
from tools_app.sandbox.container.claims import Claim
from tools_app.sandbox.container.engine import Engine, connect, containers_dir
from tools_app.sandbox.local import HOME
from tools_app.sandbox.processes import MEGABYTE

#: The container's main process only waits; commands run beside it.
WAIT = ["sleep", "2147483647"]
KEEPER = "65534:65534"
ENVIRONMENT = {"HOME": HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "USER": "agent"}  # noqa: S108
#: The memory limit of one process is set inside, as the engine's helper would not fit in it; the
#: control group limits all of them together. Two outputs would arrive in no order, so there is one.
#: An image without bash uses its plain shell.
SHELL = (
    'exec 2>&1; ulimit -d "$1" && ulimit -f "$2" || exit 125; '
    'command -v bash >/dev/null 2>&1 && exec bash -c "$3"; exec sh -c "$3"'
)
OPEN_FILES = 1024
MOST_PROCESSES = 30_000


def sandbox_user() -> str:
    """Return the user that runs commands: the owner of the session's files."""
    return f"{sandbox_uid()}:{sandbox_gid()}"


def command_line(command: str, limits: Limits, *, file_mb: int) -> list[str]:
    """Return a shell that sets the limits of one process, in its own units, and becomes the command."""
    data, file = limits.process_mb * 1024, min(limits.file_mb, file_mb) * 2048
    return ["/bin/sh", "-c", SHELL, "sandbox", str(data), str(file), command]


def container_spec(
    engine: Engine, sandbox: SandboxBase, image: str, *, role: str
) -> dict[str, Any]:
    """Return the request that creates the container. Its label `switchyard.shape` is a hash of it."""
    files, mounts, limits = sandbox.make(), sandbox.mounts, sandbox.limits
    made = {
        "Image": image,
        "Entrypoint": WAIT[:1],
        "Cmd": WAIT[1:],
        # Not the user of the commands, who could tamper with this process, which outlives them.
        "User": KEEPER,
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "NetworkDisabled": True,
        "HostConfig": {
            **_host(engine, limits=limits, volumes=_volumes(engine, image)),
            "Binds": [_bind(files, HOME, writable=True), *_binds(mounts)],
        },
    }
    # A folder that was deleted and created again is a different one, though its path is the same.
    seen = [made, [os.stat(m.source).st_ino for m in mounts if m.source]]
    shape = hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:32]
    own_labels = labels(sandbox.folder.session_id, role)
    return {**made, "Labels": {**own_labels, "switchyard.shape": shape}}


def _binds(mounts: Sequence[Mount]) -> Iterator[str]:
    for mount in mounts:
        if mount.source is not None:
            yield _bind(mount.source, mount.target, writable=mount.writable)


def _bind(source: Path, target: str, *, writable: bool) -> str:
    if ":" in f"{source}{target}":
        raise SandboxUnavailable(f"A container cannot mount {source}: its path contains a colon.")
    return f"{source}:{target}:{'rw' if writable else 'ro'}"


def _host(engine: Engine, *, limits: Limits, volumes: list[str]) -> dict[str, Any]:
    memory = limits.memory_mb * MEGABYTE
    scratch = f"size={limits.scratch_mb * 3 // 4}m,mode=1777,nosuid,nodev"
    return {
        "NetworkMode": "none",
        "IpcMode": "private",
        "UsernsMode": "keep-id" if engine.is_podman and engine.is_rootless else "",
        "ReadonlyRootfs": True,
        # An image's volumes are in memory here: there is no disk beside the workspace.
        "Tmpfs": dict.fromkeys(("/tmp", "/var/tmp", "/run", *volumes), scratch),  # noqa: S108
        "ShmSize": max(1, limits.scratch_mb // 4) * MEGABYTE,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", f"seccomp={_seccomp(engine)}"],
        "PidsLimit": pids_max(limits),
        "Memory": memory,
        "MemorySwap": memory,
        # If the machine runs out of memory all the same, the kernel ends this first.
        "OomScoreAdj": 1000,
        # Reaps orphans, so that they do not count as processes for ever.
        "Init": True,
        "Ulimits": _ulimits(limits),
    }


def _ulimits(limits: Limits) -> list[dict[str, Any]]:
    # The kernel counts the processes of all containers together here, so this limit is wide; the
    # control group limits those of the container.
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = MOST_PROCESSES if hard == resource.RLIM_INFINITY else min(hard, MOST_PROCESSES)
    given = {
        "core": 0,
        "cpu": limits.cpu_seconds,
        "fsize": limits.file_mb * MEGABYTE,
        "nofile": OPEN_FILES,
        "nproc": processes,
    }
    return [{"Name": name, "Soft": most, "Hard": most} for name, most in given.items()]


def _seccomp(engine: Engine) -> str:
    """Return the filter for the engine: Docker takes its content, Podman the path of a file."""
    profile = json.dumps(seccomp.profile())
    if not engine.is_podman:
        return profile
    path = containers_dir() / f"seccomp-{hashlib.sha256(profile.encode()).hexdigest()[:12]}.json"
    if not path.exists():
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(profile)
        beside.rename(path)
    return str(path)


def _volumes(engine: Engine, image: str) -> list[str]:
    """Return the volumes of the image. Raise SandboxUnavailable if it is missing: none is pulled."""
    answer = engine.request("GET", f"/images/{image}/json")
    if answer.is_missing:
        raise SandboxUnavailable(
            f"The image {image} is not on this machine. `make containers` builds switchyard/base; "
            f"an administrator pulls others: `podman pull {image}`."
        )
    config = (answer.content or {}).get("Config") or {} if answer.is_fine else {}
    return sorted(config.get("Volumes") or {})


log = structlog.get_logger(__name__)

INSTALLATION, SESSION, ROLE = (f"switchyard.{name}" for name in ("installation", "session", "role"))
COMMANDS, TERMINAL = "commands", "terminal"


@dataclass(frozen=True, kw_only=True)
class Container:
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
        # If two processes create one, the first wins.
        try:
            os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    return path.read_text()


def labels(session_id: UUID, role: str) -> dict[str, str]:
    return {**_of_session(session_id), ROLE: role}


def container_name(session_id: UUID, suffix: str = "") -> str:
    return f"switchyard-{installation_id()}-{session_id}{suffix and '-'}{suffix}"


def ensure_container(
    engine: Engine, name: str, body: dict[str, Any], *, known: str | None = None
) -> Container:
    """Return the session's container, running. One that differs from `body` is replaced.

    With `known`, raise SandboxReplaced unless it is that very container.
    """
    found = engine.inspect(name)
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
        found = engine.inspect(found["Id"])
    return _container(found)


def _create(engine: Engine, name: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = engine.request("POST", "/containers/create", body, name=name)
    # If two workers create it at once, one of them succeeds and both use it.
    if "already in use" not in answer.message:
        answer.check()
    found = engine.inspect(name)
    if found is None:
        raise SandboxReplaced
    return found


def start(engine: Engine, container_id: str) -> None:
    answer = engine.request("POST", f"/containers/{container_id}/start")
    if answer.is_missing:
        raise SandboxReplaced
    if not answer.is_fine:
        raise SandboxUnavailable(_start_failed(answer.message))


def _start_failed(message: str) -> str:
    hint = ""
    if "init" in message and ("catatonit" in message or "not found" in message):
        hint = " Install the package `catatonit`."
    return f"The container did not start: {message}.{hint}"


def _container(found: dict[str, Any] | None) -> Container:
    if found is None or not found["State"]["Pid"]:
        raise SandboxReplaced
    return Container(id=found["Id"], group=cgroup_of(found["State"]["Pid"]))


@contextmanager
def temporary_container(engine: Engine, name: str, body: dict[str, Any]) -> Iterator[str]:
    """Create a container that is removed at the end of the block."""
    created = engine.request_or_raise("POST", "/containers/create", body, name=name)
    try:
        yield created["Id"]
    finally:
        engine.remove(created["Id"])


def end_session_claims(session_id: UUID) -> int:
    """Take the container away from all who use it, and return their number."""
    found = [
        claim
        for claim in claims.list_claims(session_id)
        if claim.kind in {"command", claims.WITHDRAWN}
    ]
    return end_claims(session_id, found) if found else 0


def end_claims(session_id: UUID, found: list[Claim]) -> int:
    """Withdraw claims first, so that their owners can no longer create a container, then remove it."""
    withdrawn = [claim.withdraw() for claim in found]
    try:
        remove_containers(session_id, role=COMMANDS)
    except SandboxUnavailable:
        # The withdrawn claims stay, and the supervisor tries again.
        log.warning("container_not_removed", session_id=str(session_id), exc_info=True)
        return 0
    for claim in withdrawn:
        claim.forget()
    return len(withdrawn)


def remove_containers(session_id: UUID, role: str = "") -> int:
    """Remove the containers of a session, or those with one role. Its files stay."""
    if not claims.session_dir(session_id).exists():
        return 0
    wanted = labels(session_id, role) if role else _of_session(session_id)
    return _remove_all(connect(), wanted)


def sweep(sessions: Collection[UUID], living: Collection[UUID]) -> int:
    """Remove the containers that are not needed and return their number. `living` sessions go on."""
    try:
        return _sweep(connect(), sessions, living)
    except (SandboxUnavailable, SandboxReplaced):
        log.warning("containers_not_swept", exc_info=True)
        return 0


def remove_unused_containers() -> None:
    """Remove every container in which nothing runs, before Switchyard stops."""
    unused = [
        session_id
        for session_id in claims.sessions_with_claims()
        if not claims.list_claims(session_id)
    ]
    if not unused:
        return
    try:
        engine = connect()
        for session_id in unused:
            _remove_all(engine, _of_session(session_id))
    except (SandboxUnavailable, SandboxReplaced):
        log.warning("containers_not_swept", exc_info=True)


def list_containers() -> list[dict[str, Any]]:
    """Return the containers of this installation, as the engine describes them."""
    return connect().list_labelled({INSTALLATION: installation_id()})


def _sweep(engine: Engine, sessions: Collection[UUID], living: Collection[UUID]) -> int:
    removed = 0
    for session_id in sessions:
        if session_id not in living:
            removed += _remove_all(engine, _of_session(session_id))
            claims.forget_session(session_id)
            continue
        removed += _end_lost(engine, session_id)
        if _is_idle(session_id):
            removed += _remove_all(engine, _of_session(session_id))
            if not claims.list_claims(session_id):
                claims.forget_session(session_id)
    ours = engine.list_labelled({INSTALLATION: installation_id()})
    # A claim is written before its container is created: one without a claim has lost its folder.
    # The claims are read again, as a session may have been added since the list was read.
    known = {str(session_id) for session_id in (*sessions, *claims.sessions_with_claims())}
    lost = [container for container in ours if container["Labels"].get(SESSION) not in known]
    return removed + sum(engine.remove(container["Id"]) for container in lost)


def _end_lost(engine: Engine, session_id: UUID) -> int:
    """End what a dead worker left running: nothing else would before the session's next run."""
    lost = [c for c in claims.list_claims(session_id) if c.is_dead or c.kind == claims.WITHDRAWN]
    for claim in [c for c in lost if c.kind == "terminal"]:
        engine.remove(container_name(session_id, claim.nonce))
        claim.forget()
    commands = [c for c in lost if c.kind != "terminal"]
    return end_claims(session_id, commands) if commands else 0


def _is_idle(session_id: UUID) -> bool:
    idle_for = time.time() - claims.last_use(session_id)
    return not claims.list_claims(session_id) and idle_for > settings.SANDBOX_IDLE_SECONDS


def _remove_all(engine: Engine, wanted: dict[str, str]) -> int:
    """Remove the containers with all these labels and return their number."""
    return sum(engine.remove(found["Id"]) for found in engine.list_labelled(wanted))


def _of_session(session_id: UUID) -> dict[str, str]:
    return {INSTALLATION: installation_id(), SESSION: str(session_id)}
