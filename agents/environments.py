"""Environments: made, changed, deleted, and found on the way to every sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, RestrictedError

from agents.environment_input import EnvironmentInput
from agents.inputs import is_storable, read_input
from agents.models import AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from agents.named_rows import hold, read_change, write
from agents.recent import Recent
from config.faults import Conflict, NotFound
from tenants.models import User


def create_environment(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Environment:
    environment = Environment(workspace_id=workspace_id, created_by=created_by)
    return _write(environment, read_input(EnvironmentInput, fields))


@transaction.atomic
def change_environment(
    environment: Environment, changes: Mapping[str, Any], *, replace: bool = False
) -> Environment:
    """Change what is named, or everything. Running commands keep the bounds they began with."""
    held = hold(environment)
    given = read_change(EnvironmentInput, held, changes, replace=replace)
    if held.name == DEFAULT_NAME and given.name != DEFAULT_NAME:
        raise Conflict(f"{DEFAULT_NAME} is found by its name, which has to stay.")
    return _write(held, given)


def delete_environment(environment: Environment) -> None:
    """Remove it, unless it is the default or something needs it."""
    if environment.name == DEFAULT_NAME:
        raise Conflict(
            f"{DEFAULT_NAME} is what agents without an environment use. Change it instead."
        )
    pk = environment.pk
    try:
        with transaction.atomic():
            environment.delete()
    except (ProtectedError, RestrictedError, IntegrityError):
        environment.pk = pk
        raise Conflict(_why_kept(environment)) from None
    _recent.forget(pk)


def find_environment(workspace_id: UUID, ref: str | UUID) -> Environment:
    """By id, else by exact name."""
    rows = Environment.objects.for_workspace(workspace_id)
    try:
        found = rows.filter(pk=UUID(str(ref))).first()
    except ValueError:
        found = rows.filter(name=ref).first() if is_storable(str(ref)) else None
    if found is None:
        raise NotFound(f"There is no environment {str(ref)[:80]!r} here.")
    return found


def default_environment(workspace_id: UUID, *, created_by: User | None = None) -> Environment:
    """The workspace's `local-default`, made when it is missing."""
    environment, _ = Environment.objects.get_or_create(
        workspace_id=workspace_id,
        name=DEFAULT_NAME,
        defaults={**_default_fields(), "created_by": created_by},
    )
    return environment


def environment_or_default(workspace_id: UUID, environment_id: UUID | None) -> Environment:
    """Where commands run, as it is now: in what was chosen, else in the workspace's default.

    It only reads: a default that is missing is answered with what a new one would say.
    """
    rows = Environment.objects.for_workspace(workspace_id)
    chosen = rows.filter(pk=environment_id).first() if environment_id else None
    found = chosen or rows.filter(name=DEFAULT_NAME).first()
    return found or Environment(workspace_id=workspace_id, **_default_fields())


def recent_environment(environment_id: UUID) -> Environment:
    """The row as it was at most a few seconds ago. Shared: not to be changed."""
    return _recent.get(environment_id)


def _write(environment: Environment, given: EnvironmentInput) -> Environment:
    written = write(environment, given, what="An environment")
    _recent.forget(written.pk)
    return written


def _default_fields() -> dict[str, Any]:
    return EnvironmentInput(name=DEFAULT_NAME).model_dump(mode="json")


def _why_kept(environment: Environment) -> str:
    """Versions never change, so an agent that used the environment once still refers to it."""
    users = AgentVersion.objects.filter(environment=environment).values_list("name", flat=True)
    names = ", ".join(sorted(set(users.order_by()[:50]))[:5])
    if names:
        return f"Versions of these agents run here: {names}. Change the environment instead."
    return "Sessions run here. Change the environment instead."


def _load(environment_id: UUID) -> Environment:
    found = Environment.objects.filter(pk=environment_id).first()
    if found is None:
        raise NotFound
    return found


_recent: Recent[UUID, Environment] = Recent(_load)
