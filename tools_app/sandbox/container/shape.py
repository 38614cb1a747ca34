"""What a session's container is made like: what it sees, and what it may use."""

from __future__ import annotations

import hashlib
import json
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from config.faults import SandboxUnavailable
from tools_app.folder import acting_gid, acting_uid
from tools_app.sandbox import seccomp
from tools_app.sandbox.base import Limits, Mount
from tools_app.sandbox.confinement import HOME
from tools_app.sandbox.container.cgroup import pids_max
from tools_app.sandbox.container.engine import Engine
from tools_app.sandbox.container.service import containers_dir
from tools_app.sandbox.watch import MEGABYTE

#: Keeps the container; commands are run beside it.
WAIT = ["sleep", "2147483647"]
KEEPER = "65534:65534"
ENVIRONMENT = {"HOME": HOME, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "USER": "agent"}  # noqa: S108
#: The bound on one process's memory is set inside, as the engine's own helper would not fit in it;
#: the control group has the bound on all of them. Two outputs would come in no order, so there is one.
#: Without bash in the image, its plain shell does.
SHELL = (
    'exec 2>&1; ulimit -d "$1" || exit 125; '
    'command -v bash >/dev/null 2>&1 && exec bash -c "$2"; exec sh -c "$2"'
)
OPEN_FILES = 1024
MOST_PROCESSES = 30_000


def acting_user() -> str:
    """Who runs commands: the owner of the session's files."""
    return f"{acting_uid()}:{acting_gid()}"


def command_line(command: str, limits: Limits) -> list[str]:
    return ["/bin/sh", "-c", SHELL, "sandbox", str(limits.process_mb * 1024), command]


def body(
    engine: Engine,
    *,
    files: Path,
    limits: Limits,
    image: str,
    labels: Mapping[str, str],
    mounts: Sequence[Mount] = (),
) -> dict[str, Any]:
    """What the engine is told to make. The label `switchyard.shape` says when it has changed."""
    made = {
        "Image": image,
        "Entrypoint": WAIT[:1],
        "Cmd": WAIT[1:],
        # Not the commands' own user, who could write into this process, and it outlives commands.
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
    # A folder that was made anew is another one, though its path is the same.
    seen = [made, [os.stat(m.source).st_ino for m in mounts if m.source]]
    shape = hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()[:32]
    return {**made, "Labels": {**labels, "switchyard.shape": shape}}


def _binds(mounts: Sequence[Mount]) -> Iterator[str]:
    for mount in mounts:
        if mount.source is not None:
            yield _bind(mount.source, mount.target, writable=mount.writable)


def _bind(source: Path, target: str, *, writable: bool) -> str:
    if ":" in f"{source}{target}":
        raise SandboxUnavailable(f"A container cannot mount {source}: its path has a colon.")
    return f"{source}:{target}:{'rw' if writable else 'ro'}"


def _host(engine: Engine, *, limits: Limits, volumes: list[str]) -> dict[str, Any]:
    memory = limits.memory_mb * MEGABYTE
    scratch = f"size={limits.scratch_mb * 3 // 4}m,mode=1777,nosuid,nodev"
    return {
        "NetworkMode": "none",
        "IpcMode": "private",
        "UsernsMode": "keep-id" if engine.is_podman and engine.is_rootless else "",
        "ReadonlyRootfs": True,
        # What an image would keep in volumes of its own is memory here: no disk beside the workspace.
        "Tmpfs": dict.fromkeys(("/tmp", "/var/tmp", "/run", *volumes), scratch),  # noqa: S108
        "ShmSize": max(1, limits.scratch_mb // 4) * MEGABYTE,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", f"seccomp={_seccomp(engine)}"],
        "PidsLimit": pids_max(limits),
        "Memory": memory,
        "MemorySwap": memory,
        # Should the machine run out of memory all the same, this is what the kernel ends first.
        "OomScoreAdj": 1000,
        # Takes in orphans, so that they do not count as processes for ever.
        "Init": True,
        "Ulimits": _ulimits(limits),
    }


def _ulimits(limits: Limits) -> list[dict[str, Any]]:
    # The kernel counts the processes of all containers together here, so this bound is wide; the
    # control group has the container's own.
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
    """Docker takes the filter itself, Podman the path of a file that holds it."""
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
    """Also tells what to do about an image that is not there: none is fetched from anywhere."""
    answer = engine.ask("GET", f"/images/{image}/json")
    if answer.is_missing:
        raise SandboxUnavailable(
            f"The image {image} is not on this machine. `make containers` makes switchyard/base; "
            f"others are fetched by an administrator: `podman pull {image}`."
        )
    config = (answer.content or {}).get("Config") or {} if answer.is_fine else {}
    return sorted(config.get("Volumes") or {})
