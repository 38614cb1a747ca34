"""What may be said about an environment."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from agents.inputs import STORABLE, Input
from agents.limits import SandboxLimits
from agents.models import Environment
from agents.mount_input import Mount

MOST_HOSTS = 200
MOST_MOUNTS = 20

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


def _none_is_empty(said: object) -> object:
    return "" if said is None else said


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
    image: Annotated[
        str, Field(max_length=200, pattern=rf"^$|{_IMAGE}"), BeforeValidator(_none_is_empty)
    ] = ""
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
