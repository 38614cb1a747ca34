"""The list of sessions: searched, narrowed, newest activity first."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.models import Agent
from sessions_app.models import Session
from sessions_app.models.session import SessionQuerySet
from sessions_app.pages.words import thousands
from sessions_app.transcript import mentioning
from tenants.access import authorise
from tenants.authentication import principal_of

PAGE = 50
LONGEST_SEARCH = 200
#: Which lamp stands for which status, and its word.
STATUSES = {
    "running": ("is-running", "Running"),
    "requires_action": ("is-waiting", "Needs you"),
    "rescheduling": ("is-waiting", "Trying again"),
    "idle": ("", "Idle"),
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for, as the address says it."""

    words: str = ""
    status: str = ""
    agent: str = ""
    page: int = 1

    @classmethod
    def in_request(cls, request: HttpRequest) -> Wanted:
        asked = request.GET
        status, page = asked.get("status", ""), asked.get("page", "1")
        try:
            agent = str(UUID(asked.get("agent", "")))
        except ValueError:
            agent = ""
        return cls(
            words=asked.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH],
            status=status if status in STATUSES else "",
            agent=agent,
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 6 else 1,
        )

    def url(self, **changed: object) -> str:
        """The address of the same list with something else. Another choice begins at its top."""
        facts = {"q": self.words, "status": self.status, "agent": self.agent, "page": 1, **changed}
        said = {
            name: value for name, value in facts.items() if value and (name, value) != ("page", 1)
        }
        return f"?{urlencode(said)}"


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One way to narrow the list."""

    name: str
    url: str
    is_on: bool
    lamp: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One session, as the table shows it."""

    session: Session
    lamp: str
    status: str
    tokens: str


def row_of(session: Session) -> Row:
    lamp, word = STATUSES.get(session.status, ("", session.get_status_display()))
    tokens = thousands(session.input_tokens + session.output_tokens)
    return Row(session=session, lamp=lamp, status=word, tokens=tokens)


@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    wanted = Wanted.in_request(request)
    start = max(0, wanted.page - 1) * PAGE
    rows = [row_of(one) for one in found(workspace_id, wanted)[start : start + PAGE + 1]]
    context = {
        "rows": rows[:PAGE],
        "wanted": wanted,
        "statuses": status_chips(wanted),
        "agents": agent_chips(workspace_id, wanted),
        "is_narrowed": bool(wanted.words or wanted.status or wanted.agent),
        "older": wanted.url(page=wanted.page + 1) if len(rows) > PAGE else "",
        "newer": wanted.url(page=wanted.page - 1) if wanted.page > 1 else "",
        "may_run": principal.may("run"),
    }
    return render(request, "pages/sessions/sessions.html", context)


def found(workspace_id: UUID, wanted: Wanted) -> SessionQuerySet:
    rows = Session.objects.for_workspace(workspace_id).active()
    if wanted.words:
        rows = mentioning(rows, wanted.words)
    if wanted.status:
        rows = rows.filter(status=wanted.status)
    if wanted.agent:
        rows = rows.filter(agent_id=wanted.agent)
    return rows.select_related("agent__current").order_by("-active_at", "-pk")


def status_chips(wanted: Wanted) -> list[Chip]:
    """A chip that is on takes its choice back."""
    return [
        Chip(
            name=word,
            lamp=lamp,
            is_on=wanted.status == value,
            url=wanted.url(status="" if wanted.status == value else value),
        )
        for value, (lamp, word) in STATUSES.items()
    ]


def agent_chips(workspace_id: UUID, wanted: Wanted) -> list[Chip]:
    agents = Agent.objects.for_workspace(workspace_id).active().select_related("current")
    return [
        Chip(
            name=str(agent),
            is_on=wanted.agent == str(agent.pk),
            url=wanted.url(agent="" if wanted.agent == str(agent.pk) else str(agent.pk)),
        )
        for agent in agents.order_by("created_at", "pk")
    ]
