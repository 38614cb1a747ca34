"""Agents: made, changed by numbered versions that never change, put away, found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.agent_input import AgentInput, choose_model
from agents.environments import find_environment, recent_environment
from agents.inputs import is_storable, merged, read_input, wrong_field
from agents.limits import limits_of
from agents.models import Agent, AgentVersion
from config.faults import Conflict, NotFound
from tenants.models import User

#: Versions a process keeps at hand.
VERSIONS_KEPT = 1_000
COLUMNS = (*(name for name in AgentInput.model_fields if name != "environment"), "environment_id")


@transaction.atomic
def create_agent(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Agent:
    """An agent with its first version."""
    columns = columns_for(workspace_id, fields)
    agent = Agent.objects.create(workspace_id=workspace_id, created_by=created_by)
    write_version(agent, number=1, columns=columns, by=created_by)
    return agent


@transaction.atomic
def change_agent(
    agent: Agent,
    changes: Mapping[str, Any],
    *,
    by: User | None = None,
    replace: bool = False,
    expected_version: int | None = None,
) -> AgentVersion:
    """Make the next version, or answer with the current one when nothing would be different.

    With `replace`, what is not named goes back to its default. Writers wait for each other on the
    agent's row, so numbers have no gaps; `expected_version` refuses to build on an older one.
    """
    locked = Agent.objects.select_for_update(no_key=True).filter(pk=agent.pk).first()
    if locked is None:
        raise NotFound
    if locked.archived_at:
        raise Conflict("This agent was archived.")
    # Read after the lock is held: a join would show the version that was current before it.
    current = locked.versions.published().order_by("-number").first()
    if current is None:
        raise Conflict("This agent is a draft. Change its draft, and publish that.")
    if expected_version not in (None, current.number):
        raise Conflict(f"Version {current.number} is newer than version {expected_version}.")
    fields = changes if replace else merged_fields(fields_of(current), changes)
    columns = columns_for(locked.workspace_id, fields)
    if columns != _columns_of(current):
        current = write_version(locked, number=current.number + 1, columns=columns, by=by)
    agent.current = current
    return current


def archive_agent(agent: Agent) -> None:
    """Put it away: it starts nothing new, and its sessions can still be read."""
    Agent.objects.filter(pk=agent.pk, archived_at=None).update(archived_at=Now())


def restore_agent(agent: Agent) -> None:
    Agent.objects.filter(pk=agent.pk).update(archived_at=None)


def find_agent(workspace_id: UUID, ref: str | UUID) -> Agent:
    """The agent with this id or exact name that may be given work, with its current version."""
    rows = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    try:
        found = list(rows.filter(pk=UUID(str(ref))))
    except ValueError:
        found = list(rows.filter(current__name=ref)[:2]) if is_storable(str(ref)) else []
    if not found:
        raise NotFound(f"There is no agent {str(ref)[:80]!r} here.")
    if len(found) > 1:
        raise Conflict(f"Several agents are named {ref!r}. Use the id of one.")
    return found[0]


def current_version(agent: Agent) -> AgentVersion:
    """What the agent does now. Every agent has a version from its first moment on."""
    return agent.current or agent.versions.published().order_by("-number")[0]


def version_by_id(version_id: UUID) -> AgentVersion:
    """The version with its environment, mostly without a query.

    A version never changes and is kept; its environment may, so it is at most seconds old.
    """
    version = copy(_kept_version(version_id))
    if version.environment_id:
        version.environment = recent_environment(version.environment_id)
    return version


def fields_of(version: AgentVersion) -> dict[str, Any]:
    """The definition as it could be given again."""
    fields = _columns_of(version)
    fields["environment"] = fields.pop("environment_id")
    return fields


def _columns_of(version: AgentVersion) -> dict[str, Any]:
    """As they would be written today: limits may have come and gone since."""
    columns = {name: getattr(version, name) for name in COLUMNS}
    return columns | {"limits": limits_of(version).model_dump()}


@lru_cache(maxsize=VERSIONS_KEPT)
def _kept_version(version_id: UUID) -> AgentVersion:
    version = AgentVersion.objects.filter(pk=version_id).first()
    if version is None:
        raise NotFound
    return version


def merged_fields(current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The definition after a change."""
    fields = merged(current, changes)
    if "model" not in changes and fields["provider"] != current["provider"]:
        fields["model"] = ""  # The old provider's model means nothing to the new one.
    return fields


def columns_for(workspace_id: UUID, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The checked definition as the version's columns."""
    given = read_input(AgentInput, fields)
    choice = choose_model(workspace_id, provider=given.provider, model=given.model)
    columns = given.model_dump(mode="json", exclude={"environment"})
    columns |= {"provider": choice.provider, "model": choice.model, "environment_id": None}
    if given.environment is not None:
        try:
            columns["environment_id"] = find_environment(workspace_id, given.environment).pk
        except NotFound as fault:
            raise wrong_field("environment", fault.detail) from None
    return columns


def write_version(
    agent: Agent, *, number: int, columns: Mapping[str, Any], by: User | None
) -> AgentVersion:
    """Let this be what the agent is from now on."""
    version = AgentVersion.objects.create(
        agent=agent, workspace_id=agent.workspace_id, number=number, created_by=by, **columns
    )
    agent.current = version
    agent.save(update_fields=["current"])
    return version


def name_agents(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    """What these agents are called, put away ones too."""
    found = Agent.objects.for_workspace(workspace_id).filter(pk__in=list(ids))
    return dict(found.values_list("pk", "current__name"))
