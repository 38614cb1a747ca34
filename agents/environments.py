"""Creates, changes, deletes and finds environments, in which agents' commands run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, RestrictedError
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from agents.limits import SandboxLimits
from agents.models import AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from agents.mounts import Mount
from core.db import TimedCache, lock_row, save_row
from core.exceptions import Conflict, NotFound
from core.validation import STORABLE, Input, is_storable, read_change, read_input
from tenants.access import Principal, authorise
from tenants.models import User

MOST_HOSTS = 200
MOST_MOUNTS = 20
#: Mounts that show more than what already belongs to the session and its agent.
SHARED_MOUNTS = frozenset({"vault", "workspace_directory", "repo_mount", "remote_file_store"})

_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
#: An image name that the container engine cannot take for an option.
_IMAGE = r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$"


def _host(raw: str) -> str:
    """Normalise a host (`api.example.com`) or a wildcard (`*.example.com`)."""
    host = raw.strip().rstrip(".").lower()
    if host == "*":
        raise ValueError("To allow every host, choose the network `full`.")
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        host = ""
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise ValueError(
            f"{raw[:80]!r} is not a valid host. Use `api.example.com` or `*.example.com`."
        )
    return host


def _none_is_empty(value: object) -> object:
    return "" if value is None else value


#: The kinds of sandbox, each with a title and a description. Plugins add theirs.
KINDS: dict[str, tuple[str, str]] = {
    Environment.Kind.LOCAL.value: (
        "On this machine",
        "Isolated by kernel namespaces. Starts immediately.",
    ),
    Environment.Kind.CONTAINER.value: (
        "In a container",
        "Podman or Docker, with an image of your choice.",
    ),
}


def _known_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"The kind is one of {', '.join(KINDS)}.")
    return kind


class EnvironmentInput(Input):
    """The fields of an environment."""

    name: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80), STORABLE
    ]
    kind: Annotated[str, AfterValidator(_known_kind)] = Environment.Kind.LOCAL.value
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
    def _is_consistent(self) -> Self:
        if self.network is Environment.Network.ALLOWLIST and not self.allowed_hosts:
            raise ValueError("The network `allowlist` needs at least one host in allowed_hosts.")
        paths = [mount.mount_path for mount in self.mounts]
        if len(paths) != len(set(paths)):
            raise ValueError("Two mounts have the same mount_path.")
        return self


def create_environment(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Environment:
    environment = Environment(workspace_id=workspace_id, created_by=created_by)
    return _write(environment, read_input(EnvironmentInput, fields))


@transaction.atomic
def change_environment(
    environment: Environment, changes: Mapping[str, Any], *, replace: bool = False
) -> Environment:
    """Change the named fields, or all of them. Running commands keep the limits they began with."""
    row = lock_row(environment)
    given = read_change(EnvironmentInput, row, changes, replace=replace)
    if row.name == DEFAULT_NAME and given.name != DEFAULT_NAME:
        raise Conflict(f"{DEFAULT_NAME} cannot be renamed: agents without an environment use it.")
    return _write(row, given)


def delete_environment(environment: Environment) -> None:
    """Delete an environment. Raise Conflict if it is the default or still in use."""
    if environment.name == DEFAULT_NAME:
        raise Conflict(
            f"{DEFAULT_NAME} is used by agents without an environment. Change it instead."
        )
    pk = environment.pk
    try:
        with transaction.atomic():
            environment.delete()
    except (ProtectedError, RestrictedError, IntegrityError):
        environment.pk = pk
        raise Conflict(_why_in_use(environment)) from None
    _recent.forget(pk)


def find_environment(workspace_id: UUID, ref: str | UUID) -> Environment:
    """Return the environment with this id or exact name."""
    rows = Environment.objects.for_workspace(workspace_id)
    try:
        found = rows.filter(pk=UUID(str(ref))).first()
    except ValueError:
        found = rows.filter(name=ref).first() if is_storable(str(ref)) else None
    if found is None:
        raise NotFound(f"There is no environment {str(ref)[:80]!r} here.")
    return found


def authorise_choice(principal: Principal, environment: Environment, usual_id: UUID | None) -> None:
    """Raise Forbidden if this principal may not choose the environment for a session.

    Every command in a session can read the secrets that its environment mounts. Attaching them to a
    session needs the right to build, and so does choosing such an environment, unless it is the one
    that the agent's version names.
    """
    mounts_secrets = any(mount["kind"] == "vault" for mount in environment.mounts)
    if mounts_secrets and environment.pk != usual_id:
        authorise(principal, "build", environment)


def excess(environment: Environment, within: Environment) -> str:
    """Return what an environment allows beyond another one; empty if it allows no more."""
    if environment.pk == within.pk:
        return ""
    if environment.network != Environment.Network.NONE and not _reaches_no_more(
        environment, within
    ):
        return "it reaches more of the network"
    given = [mount for mount in within.mounts if mount["kind"] in SHARED_MOUNTS]
    for mount in environment.mounts:
        if mount["kind"] in SHARED_MOUNTS and not any(_covers(one, mount) for one in given):
            return f"it mounts {mount['mount_path']}"
    return ""


def _reaches_no_more(environment: Environment, within: Environment) -> bool:
    if within.network == Environment.Network.FULL:
        return True
    if (
        environment.network != Environment.Network.ALLOWLIST
        or within.network != environment.network
    ):
        return False
    return all(
        any(_covers_host(wide, host) for wide in within.allowed_hosts)
        for host in environment.allowed_hosts
    )


def _covers_host(wide: str, host: str) -> bool:
    """Return whether a pattern allows everything that a host or a narrower pattern allows."""
    return wide == host or (wide.startswith("*.") and host.endswith(wide[1:]))


def _covers(wide: Mapping[str, Any], mount: Mapping[str, Any]) -> bool:
    """Return whether one mount shows all that another one shows."""
    may_write = wide.get("access") == "read_write" or mount.get("access") != "read_write"
    return wide["kind"] == mount["kind"] and may_write and _sources(wide) >= _sources(mount)


def _sources(mount: Mapping[str, Any]) -> set[str]:
    source = str(mount.get("source_ref", ""))
    return {name.strip() for name in source.split(",")} if mount["kind"] == "vault" else {source}


def default_environment(workspace_id: UUID, *, created_by: User | None = None) -> Environment:
    """Return the workspace's `local-default`, creating it if it is missing."""
    environment, _ = Environment.objects.get_or_create(
        workspace_id=workspace_id,
        name=DEFAULT_NAME,
        defaults={**_default_fields(), "created_by": created_by},
    )
    return environment


def environment_or_default(workspace_id: UUID, environment_id: UUID | None) -> Environment:
    """Return the chosen environment as it is now, or else the workspace's default.

    It only reads: a missing default is answered with an unsaved one.
    """
    rows = Environment.objects.for_workspace(workspace_id)
    chosen = rows.filter(pk=environment_id).first() if environment_id else None
    found = chosen or rows.filter(name=DEFAULT_NAME).first()
    return found or Environment(workspace_id=workspace_id, **_default_fields())


def recent_environment(environment_id: UUID) -> Environment:
    """Return the environment, at most a few seconds old. It is shared: do not change it."""
    return _recent.get(environment_id)


def _write(environment: Environment, given: EnvironmentInput) -> Environment:
    written = save_row(environment, given, what="An environment")
    _recent.forget(written.pk)
    return written


def _default_fields() -> dict[str, Any]:
    return EnvironmentInput(name=DEFAULT_NAME).model_dump(mode="json")


def _why_in_use(environment: Environment) -> str:
    """Name the agents whose versions refer to it; versions never change, so old ones count."""
    users = AgentVersion.objects.filter(environment=environment).values_list("name", flat=True)
    names = ", ".join(sorted(set(users.order_by()[:50]))[:5])
    if names:
        return f"Versions of these agents use it: {names}. Change the environment instead."
    return "Sessions use it. Change the environment instead."


_recent: TimedCache[UUID, Environment] = TimedCache(lambda id: Environment.objects.find(pk=id))
