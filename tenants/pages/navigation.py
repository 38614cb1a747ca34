"""Navigation: the rail, the settings column, the phone's bar and the command palette."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agents.models import Agent
from memory.api.serializers import workspace_reader
from memory.models import MemoryEntry
from sessions_app.approvals.approvals import count_pending
from sessions_app.models import Session
from sessions_app.models.session import SessionQuerySet
from sessions_app.search import FIRST_SESSIONS
from tenants import plugin_routes
from tenants.access import ANONYMOUS, Principal, Verb
from tenants.accounts import list_workspaces
from tenants.authentication import authorised, principal_of
from tenants.models import User, Workspace
from tenants.notifications.inbox import unread_count


@dataclass(frozen=True, kw_only=True)
class NavItem:
    """A page that the navigation leads to."""

    name: str
    icon: str
    url_name: str
    key: str = ""  #: The shortcut: this key after G.
    group: str = ""
    needs: Verb = "read"


RAIL = [
    NavItem(name="Home", icon="house", url_name="home", key="h"),
    NavItem(name="Chat", icon="message-square", url_name="chat", key="c"),
    NavItem(name="Sessions", icon="table-properties", url_name="sessions", key="s"),
    NavItem(name="Approvals", icon="square-check", url_name="approvals", key="a"),
    NavItem(name="Inbox", icon="inbox", url_name="inbox", key="i"),
    NavItem(name="Agents", icon="bot", url_name="agents", key="b"),
    NavItem(name="Memory", icon="brain", url_name="memory", key="m"),
    NavItem(name="Policies", icon="shield-check", url_name="policies", key="p"),
    NavItem(name="Schedules", icon="calendar-clock", url_name="schedules", key="d"),
    NavItem(name="Workflows", icon="workflow", url_name="workflows", key="w"),
    NavItem(name="Analytics", icon="chart-line", url_name="analytics", key="n"),
    NavItem(name="Settings", icon="settings", url_name="settings", key="t"),
]
#: What the command palette offers to create or start.
ACTIONS = [
    NavItem(name="New chat", icon="plus", url_name="chat", group="Do", needs="run"),
    NavItem(name="New agent", icon="plus", url_name="agent_new", group="Do", needs="build"),
    NavItem(name="New document", icon="plus", url_name="memory_new", group="Do", needs="run"),
    NavItem(name="New schedule", icon="plus", url_name="schedule_new", group="Do", needs="run"),
    NavItem(name="Start a workflow", icon="play", url_name="workflow_new", group="Do", needs="run"),
]
SETTINGS = [
    NavItem(name="Workspace", icon="building-2", url_name="workspace", group="Settings"),
    NavItem(name="Members", icon="users", url_name="members", group="Settings"),
    NavItem(name="API keys", icon="key-round", url_name="keys", group="Settings"),
    NavItem(name="Credits and budgets", icon="wallet", url_name="budgets", group="Settings"),
    NavItem(name="Webhooks", icon="webhook", url_name="webhooks", group="Settings", needs="admin"),
    NavItem(name="Model keys", icon="plug", url_name="providers", group="Settings"),
    NavItem(name="Environments", icon="box", url_name="environments", group="Settings"),
    NavItem(name="MCP servers", icon="link", url_name="mcp", group="Settings"),
    NavItem(name="Custom tools", icon="wrench", url_name="custom_tools", group="Settings"),
    NavItem(name="Skills", icon="book-open", url_name="skills", group="Settings"),
    NavItem(name="Vault", icon="lock", url_name="vault", group="Settings"),
    NavItem(
        name="Feedback", icon="thumbs-up", url_name="feedback", group="Settings", needs="admin"
    ),
    NavItem(name="Terminals", icon="square-terminal", url_name="terminals", group="Settings"),
    NavItem(name="Account", icon="user", url_name="account", group="Settings"),
]


@dataclass(frozen=True, kw_only=True)
class LiveCount:
    """The WebSocket that updates a count while the page is open (island `live-count`)."""

    socket: str
    #: The member of its frames that holds the count.
    member: str


@dataclass(frozen=True, kw_only=True)
class NavPlace(NavItem):
    """A navigation item as one page shows it to one principal."""

    url: str
    is_current: bool
    count: int
    live: LiveCount | None = None


def count_for(url_name: str, workspace_id: UUID | None, user_id: UUID | None) -> int:
    """Return how many items of a page wait for an answer or are unread."""
    if workspace_id and url_name == "approvals":
        return count_pending(workspace_id)
    if workspace_id and user_id and url_name == "inbox":
        return unread_count(workspace_id, user_id)
    return 0


def live_count(url_name: str, workspace_id: UUID | None) -> LiveCount | None:
    if workspace_id and url_name == "approvals":
        return LiveCount(socket="/ws/approvals/", member="pending")
    if workspace_id and url_name == "inbox":
        return LiveCount(socket=f"/ws/inbox/{workspace_id}/", member="unread")
    return None


def places(
    items: Iterable[NavItem],
    *,
    path: str,
    workspace_id: UUID | None,
    user_id: UUID | None = None,
) -> list[NavPlace]:
    """Resolve the items, and mark the one that contains this path as current."""
    return [
        NavPlace(
            **vars(item),
            url=(url := reverse(item.url_name)),
            is_current=path == url or (url != "/" and path.startswith(url)),
            count=count_for(item.url_name, workspace_id, user_id),
            live=live_count(item.url_name, workspace_id),
        )
        for item in items
    ]


#: The bar of a phone has room for five: four places and "More".
BAR_SIZE = 4


@dataclass(kw_only=True)
class Frame:
    """What the page frame shows. Templates trigger only the queries that they need."""

    principal: Principal = ANONYMOUS
    path: str = "/"

    @property
    def person(self) -> User | None:
        return self.principal.user

    @cached_property
    def workspaces(self) -> list[Workspace]:
        return list_workspaces(self.person) if self.person else []

    @property
    def workspace(self) -> Workspace | None:
        acting = self.principal.workspace_id
        return next((each for each in self.workspaces if each.pk == acting), None)

    @cached_property
    def rail(self) -> list[NavPlace]:
        if self.principal.workspace_id is None:
            return []
        return places(
            [*RAIL, *plugin_items(self.principal)],
            path=self.path,
            workspace_id=self.principal.workspace_id,
            user_id=self.principal.user_id,
        )

    @cached_property
    def settings(self) -> list[NavPlace]:
        acting = self.principal.workspace_id
        may = self.principal.may
        own = [i for i in SETTINGS if i.url_name == "account" or (acting and may(i.needs))]
        return places(own, path=self.path, workspace_id=acting)

    @property
    def bar(self) -> list[NavPlace]:
        return self.rail[:BAR_SIZE]

    @property
    def more(self) -> list[NavPlace]:
        return self.rail[BAR_SIZE:]

    @property
    def pages(self) -> list[NavPlace]:
        return [*self.rail, *self.settings, *self.actions]

    @property
    def actions(self) -> list[NavPlace]:
        acting = self.principal.workspace_id
        own = [item for item in ACTIONS if acting and self.principal.may(item.needs)]
        return places(own, path=self.path, workspace_id=acting)


def plugin_items(principal: Principal) -> list[NavItem]:
    """Return the pages of plugins that this principal may open."""
    return [
        NavItem(name=page.title, icon=page.icon, url_name=page.url_name, needs=page.needs)
        for page in plugin_routes.rail_pages()
        if principal.may(page.needs)
    ]


def frame(request: HttpRequest) -> Mapping[str, object]:
    """Provide `{{ frame }}` as a context processor."""
    return {"frame": Frame(principal=principal_of(request), path=request.path)}


# ── Command palette ──────────────────────────────────────────────────────────

#: Results of each kind. The list pages show the rest.
RESULTS = 5
MAX_QUERY = 100


@dataclass(frozen=True, kw_only=True)
class PaletteResult:
    name: str
    icon: str
    url: str
    group: str


@never_cache
@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    """Render the agents, sessions and documents whose names contain every typed word."""
    principal, workspace_id = authorised(request, "read")
    words = request.GET.get("q", "").replace("\0", "")[:MAX_QUERY].split()
    results = []
    if words:
        results += find_agents(principal, workspace_id, words)
        results += find_sessions(workspace_id, words)
        results += find_documents(principal, words)
    return render(request, "parts/found.html", {"found": results})


def contains_all(field: str, words: list[str]) -> Q:
    return reduce(and_, (Q(**{f"{field}__icontains": word}) for word in words), Q())


def find_sessions(workspace_id: UUID, words: list[str]) -> list[PaletteResult]:
    """Find sessions by title. Words that are common fill the list from the newest sessions."""
    rows = (
        Session.objects.for_workspace(workspace_id)
        .active()
        .filter(parent=None, last_seq__gt=0, is_shown=True)
    )
    newest = rows.latest_first().values("pk")[:FIRST_SESSIONS]
    found = _shown(Session.objects.filter(contains_all("title", words), pk__in=newest))
    if len(found) < RESULTS:
        for word in words:
            rows = rows.titled(word)
        found = _shown(rows)
    return found


def _shown(rows: SessionQuerySet) -> list[PaletteResult]:
    return [
        PaletteResult(
            name=each.title,
            icon="message-square",
            url=reverse("chat_session", args=[each.pk]),
            group=str(each.agent),
        )
        for each in rows.select_related("agent__current").latest_first()[:RESULTS]
    ]


def find_agents(principal: Principal, workspace_id: UUID, words: list[str]) -> list[PaletteResult]:
    """Find agents that the principal may start a session with."""
    if not principal.may("run"):
        return []
    rows = Agent.objects.for_workspace(workspace_id).offered().select_related("current")
    return [
        PaletteResult(
            name=f"Chat with {each}",
            icon="bot",
            url=f"{reverse('chat')}?agent={each.pk}",
            group="Agent",
        )
        for each in rows.filter(contains_all("current__name", words)).order_by("created_at")[
            :RESULTS
        ]
    ]


def find_documents(principal: Principal, words: list[str]) -> list[PaletteResult]:
    rows = (
        MemoryEntry.objects.seen_by(workspace_reader(principal))
        .kept()
        .filter(current__isnull=False)
    )
    return [
        PaletteResult(
            name=each.path,
            icon="brain",
            url=reverse("memory_document", args=[each.pk]),
            group="Memory",
        )
        for each in rows.filter(contains_all("path", words)).order_by("path")[:RESULTS]
    ]
