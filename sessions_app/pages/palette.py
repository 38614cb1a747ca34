"""What the command palette finds beside the pages: agents to talk to, chats, documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.models import Agent
from memory.api.inputs import everything
from memory.models import MemoryEntry
from sessions_app.models import Session
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

#: Of each kind. A palette is for what one can name; the lists have the rest.
SHOWN = 5
LONGEST = 100


@dataclass(frozen=True, kw_only=True)
class Found:
    name: str
    icon: str
    url: str
    group: str


@never_cache
@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """A piece of a page: what fits the typed words by its name."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    words = request.GET.get("q", "").replace("\0", "")[:LONGEST].split()
    found = []
    if words:
        found += agents(principal, workspace_id, words)
        found += chats(workspace_id, words)
        found += documents(principal, words)
    return render(request, "parts/found.html", {"found": found})


def naming(field: str, words: list[str]) -> Q:
    """Every word stands somewhere in the name."""
    return reduce(and_, (Q(**{f"{field}__icontains": word}) for word in words), Q())


def chats(workspace_id: UUID, words: list[str]) -> list[Found]:
    rows = Session.objects.for_workspace(workspace_id).active().filter(parent=None, last_seq__gt=0)
    rows = rows.filter(naming("title", words)).exclude(title="").select_related("agent__current")
    return [
        Found(
            name=one.title,
            icon="message-square",
            url=reverse("chat_session", args=[one.pk]),
            group=str(one.agent),
        )
        for one in rows.order_by("-active_at")[:SHOWN]
    ]


def agents(principal: Principal, workspace_id: UUID, words: list[str]) -> list[Found]:
    """Whom one could begin to talk to."""
    if not principal.may("run"):
        return []
    rows = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    return [
        Found(
            name=f"Chat with {one}",
            icon="bot",
            url=f"{reverse('chat')}?agent={one.pk}",
            group="Agent",
        )
        for one in rows.filter(naming("current__name", words)).order_by("created_at")[:SHOWN]
    ]


def documents(principal: Principal, words: list[str]) -> list[Found]:
    rows = MemoryEntry.objects.seen_by(everything(principal)).kept().filter(current__isnull=False)
    return [
        Found(
            name=one.path,
            icon="brain",
            url=reverse("memory_document", args=[one.pk]),
            group="Memory",
        )
        for one in rows.filter(naming("path", words)).order_by("path")[:SHOWN]
    ]
