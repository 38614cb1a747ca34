"""Pages: the list of agents, and the start of a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from agents.definitions import current_version
from agents.examples import SUGGESTION, suggestions
from agents.models import Agent, AgentDraft, AgentVersion
from core.exceptions import Conflict, Invalid
from sessions_app.builder import DESCRIPTION, ask_builder, create_draft
from sessions_app.models import Session
from tenants.authentication import authorised

RECENT = 6


@dataclass(frozen=True, kw_only=True)
class Card:
    """One agent, as a person who wants to chat sees it."""

    agent_id: UUID
    name: str
    summary: str
    model: str
    suggestions: list[str]
    is_chosen: bool


def cards(workspace_id: UUID, chosen: UUID | None) -> list[Card]:
    """Return the workspace's agents, oldest first, so that they keep their place. One query."""
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
    """Return a description without its suggestions."""
    lines = (line.strip() for line in description.splitlines())
    return " ".join(line for line in lines if line and not line.startswith(SUGGESTION))


def recent_sessions(workspace_id: UUID) -> Sequence[Session]:
    rows = Session.objects.for_workspace(workspace_id).active().filter(parent=None, is_shown=True)
    rows = rows.filter(last_seq__gt=0)
    return list(rows.select_related("agent__current").latest_first()[:RECENT])


MOST = 200
IDEAS = (
    "Make an agent that answers billing questions",
    "Make an agent that reviews pull requests",
    "Make an agent that summarises customer calls",
)


@dataclass(frozen=True, kw_only=True)
class AgentRow:
    """One row of the list of agents."""

    agent: Agent
    version: AgentVersion
    summary: str
    #: Whether the agent has unpublished changes.
    has_changes: bool


@never_cache
@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """List all agents that people made, newest first."""
    principal, workspace_id = authorised(request, "read")
    known = Agent.objects.for_workspace(workspace_id).active().known()
    found = list(known.select_related("current").order_by("-created_at")[:MOST])
    rows = AgentDraft.objects.filter(agent__in=found)
    changed = {draft.pk for draft in rows if not draft.is_empty}
    agent_rows = [
        AgentRow(
            agent=agent,
            version=agent.current,
            summary=summary_of(agent.current.description),
            has_changes=agent.pk in changed,
        )
        for agent in found
        if agent.current
    ]
    context = {
        "rows": agent_rows,
        "may_build": principal.may("build"),
        "may_run": principal.may("run"),
    }
    return render(request, "pages/builder/agents.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_new(request: HttpRequest) -> HttpResponse:
    """Ask the builder for a new agent, or start with an empty form."""
    principal, _ = authorised(request, "build")
    error = ""
    if request.method == "POST":
        text = request.POST.get("text", "").replace("\r\n", "\n")
        try:
            if not text.strip():
                return redirect("agent_build", create_draft(principal).pk)
            return redirect("agent_build", ask_builder(principal, text).agent.pk)
        except (Invalid, Conflict) as fault:
            error = fault.detail
    context = {
        "ideas": IDEAS,
        "typed": request.POST.get("text", ""),
        "error": error,
        "about": summary_of(DESCRIPTION),
    }
    return render(request, "pages/builder/new.html", context, status=400 if error else 200)
