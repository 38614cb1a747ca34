"""The list of agents, and the page on which a new one begins."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from agents.models import Agent, AgentDraft, AgentVersion
from config.faults import Conflict, Invalid
from sessions_app.building.builder import DESCRIPTION
from sessions_app.building.sessions import ask_builder, begin_agent
from sessions_app.pages.cards import summary_of
from tenants.access import authorise
from tenants.authentication import principal_of

MOST = 200
IDEAS = (
    "Make an agent that answers billing questions",
    "Make an agent that reviews pull requests",
    "Make an agent that summarises customer calls",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One agent of the list."""

    agent: Agent
    version: AgentVersion
    summary: str
    #: Whether something waits to be published.
    has_changes: bool


@never_cache
@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """All agents that people made, the newest first."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    known = Agent.objects.for_workspace(workspace_id).active().known()
    found = list(known.select_related("current").order_by("-created_at")[:MOST])
    rows = AgentDraft.objects.filter(agent__in=found)
    changed = {draft.pk for draft in rows if not draft.is_empty}
    shown = [
        Row(
            agent=agent,
            version=agent.current,
            summary=summary_of(agent.current.description),
            has_changes=agent.pk in changed,
        )
        for agent in found
        if agent.current
    ]
    context = {"rows": shown, "may_build": principal.may("build"), "may_run": principal.may("run")}
    return render(request, "pages/builder/agents.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def agent_new(request: HttpRequest) -> HttpResponse:
    """Say what a new agent should do, or begin with an empty form."""
    principal = principal_of(request)
    authorise(principal, "build")
    error = ""
    if request.method == "POST":
        text = request.POST.get("text", "").replace("\r\n", "\n")
        try:
            if not text.strip():
                return redirect("agent_build", begin_agent(principal).pk)
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
