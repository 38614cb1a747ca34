"""What may be said about an environment."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from agents.inputs import STORABLE, Input
from agents.limits import SandboxLimits
from agents.models import Environment

MOST_HOSTS = 200
MOST_MOUNTS = 20
#: Places that belong to the sandbox itself.
SYSTEM_FOLDERS = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib64",
        "proc",
        "root",
        "run",
        "sbin",
        "sys",
        "usr",
        "var",
    ]
)

_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
#: A name that cannot be taken for an option of the container engine.
_IMAGE = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$"


def _host(raw: str) -> str:
    """One host (`api.example.com`) or all below one (`*.example.com`), in small letters."""
    host = raw.strip().rstrip(".").lower()
    if host == "*":
        raise ValueError("For every host, choose the network `full`.")
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        host = ""
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise ValueError(
            f"{raw[:80]!r} is not a host. Write `api.example.com`, or `*.example.com` for all below it."
        )
    return host


def _mount_path(raw: str) -> str:
    path = PurePosixPath(raw)
    if not path.is_absolute() or raw.startswith("//") or ".." in path.parts or len(path.parts) < 2:
        raise ValueError("A mount path is absolute, as in /workspace/data, and has no `..`.")
    if path.parts[1] in SYSTEM_FOLDERS:
        raise ValueError(f"/{path.parts[1]} belongs to the sandbox itself.")
    return str(path)


class Mount(Input):
    """A resource that each session in the environment starts with."""

    kind: Literal[
        "workspace_directory",
        "local_file",
        "learnings_memory_store",
        "session_runtime_memory",
        "vault",
        "remote_file_store",
        "repo_mount",
    ]
    source_ref: Annotated[str, Field(max_length=500), STORABLE] = ""
    mount_path: Annotated[str, Field(max_length=200), AfterValidator(_mount_path), STORABLE]
    access: Literal["read_only", "read_write"] = "read_only"

    @model_validator(mode="after")
    def _stays_inside(self) -> Self:
        """A file of this machine is named from the workspace's own folder on."""
        path = PurePosixPath(self.source_ref)
        local = self.kind in {"workspace_directory", "local_file"}
        if local and (path.is_absolute() or ".." in path.parts):
            raise ValueError("source_ref is relative to the workspace's folder and has no `..`.")
        return self


class EnvironmentInput(Input):
    """Where commands run."""

    name: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80), STORABLE
    ]
    kind: Environment.Kind = Environment.Kind.LOCAL
    network: Environment.Network = Environment.Network.NONE
    allowed_hosts: Annotated[
        list[Annotated[str, AfterValidator(_host)]], Field(max_length=MOST_HOSTS)
    ] = []
    image: Annotated[str, Field(max_length=200, pattern=rf"^$|{_IMAGE}")] = ""
    mounts: Annotated[list[Mount], Field(max_length=MOST_MOUNTS)] = []
    limits: SandboxLimits = SandboxLimits()

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.network is Environment.Network.ALLOWLIST and not self.allowed_hosts:
            raise ValueError("The network `allowlist` needs at least one host in allowed_hosts.")
        paths = [mount.mount_path for mount in self.mounts]
        if len(paths) != len(set(paths)):
            raise ValueError("Two mounts have the same mount_path.")
        return self
