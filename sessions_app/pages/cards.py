"""Agents to choose from, each with what one could say to it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from agents.definitions import current_version
from agents.examples import SUGGESTION, suggestions
from agents.models import Agent, AgentVersion
from sessions_app.models import Session

RECENT = 6


@dataclass(frozen=True, kw_only=True)
class Card:
    """One agent, as somebody sees it who wants to talk."""

    agent_id: UUID
    name: str
    summary: str
    model: str
    suggestions: list[str]
    is_chosen: bool


def cards(workspace_id: UUID, chosen: UUID | None) -> list[Card]:
    """The workspace's agents, oldest first, so that they stay where people know them. One query."""
    rows = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    agents = list(rows.order_by("created_at", "pk"))
    known = {agent.pk for agent in agents}
    first = chosen if chosen in known else next(iter(agent.pk for agent in agents), None)
    return [card_of(current_version(agent), agent.pk == first) for agent in agents]


def card_of(version: AgentVersion, is_chosen: bool = False) -> Card:
    return Card(
        agent_id=version.agent_id,
        name=version.name,
        summary=summary_of(version.description),
        model=version.model,
        suggestions=suggestions(version.description),
        is_chosen=is_chosen,
    )


def summary_of(description: str) -> str:
    """What an agent says of itself, without the suggestions."""
    lines = (line.strip() for line in description.splitlines())
    return " ".join(line for line in lines if line and not line.startswith(SUGGESTION))


def recent_sessions(workspace_id: UUID) -> Sequence[Session]:
    rows = Session.objects.for_workspace(workspace_id).active().filter(parent=None, last_seq__gt=0)
    return list(rows.select_related("agent__current").order_by("-active_at")[:RECENT])
