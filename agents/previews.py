"""Versions that only previews run: what a draft would be, kept as a version that is never offered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.definitions import columns_for, current_version
from agents.models import Agent, AgentVersion
from tenants.models import User


@transaction.atomic
def create_draft_agent(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> Agent:
    """An agent that is only a draft: it has no version yet, and is given no work."""
    columns = columns_for(workspace_id, fields)
    agent = Agent.objects.create(workspace_id=workspace_id, created_by=created_by, is_draft=True)
    agent.current = _write(agent, columns, revision=0)
    agent.save(update_fields=["current"])
    return agent


def base_of(agent: Agent) -> AgentVersion:
    """What a draft is laid over: the published version, or what a new agent began as."""
    if agent.is_draft:
        return agent.versions.get(preview=0)
    return current_version(agent)


def preview_version(agent: Agent, fields: Mapping[str, Any], revision: int) -> AgentVersion:
    """The draft at this revision as a version, made when it is asked for first."""
    found = agent.versions.filter(preview=revision).first()
    return found or _write(agent, columns_for(agent.workspace_id, fields), revision=revision)


def follow_draft(agent: Agent, fields: Mapping[str, Any], revision: int) -> None:
    """Let an agent that is only a draft be called and shown as its draft says."""
    if agent.is_draft:
        agent.current = preview_version(agent, fields, revision)
        agent.save(update_fields=["current"])


def _write(agent: Agent, columns: Mapping[str, Any], *, revision: int) -> AgentVersion:
    made, _ = AgentVersion.objects.get_or_create(
        agent=agent,
        preview=revision,
        defaults={"workspace_id": agent.workspace_id, "number": 0, **columns},
    )
    return made
