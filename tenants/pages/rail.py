"""The places of the product, as the rail, the settings column and the palette list them.

An app of a later layer only adds its URL: a place is shown as soon as its URL name resolves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.urls import NoReverseMatch, reverse

from tenants.access import Verb
from tenants.inbox import unread_count


@dataclass(frozen=True, kw_only=True)
class Item:
    """A place that may exist."""

    name: str
    icon: str
    url_name: str
    key: str = ""  #: Pressed after G.
    group: str = ""
    needs: Verb = "read"


RAIL = [
    Item(name="Home", icon="house", url_name="home", key="h"),
    Item(name="Chat", icon="message-square", url_name="chat", key="c"),
    Item(name="Sessions", icon="table-properties", url_name="sessions", key="s"),
    Item(name="Approvals", icon="square-check", url_name="approvals", key="a"),
    Item(name="Inbox", icon="inbox", url_name="inbox", key="i"),
    Item(name="Agents", icon="bot", url_name="agents", key="b"),
    Item(name="Memory", icon="brain", url_name="memory", key="m"),
    Item(name="Policies", icon="shield-check", url_name="policies", key="p"),
    Item(name="Schedules", icon="calendar-clock", url_name="schedules", key="d"),
    Item(name="Workflows", icon="workflow", url_name="workflows", key="w"),
    Item(name="Analytics", icon="chart-line", url_name="analytics", key="n"),
    Item(name="Settings", icon="settings", url_name="settings", key="t"),
]
#: What the palette offers to begin.
DEEDS = [
    Item(name="New chat", icon="plus", url_name="chat", group="Do", needs="run"),
    Item(name="New agent", icon="plus", url_name="agent_new", group="Do", needs="build"),
    Item(name="New document", icon="plus", url_name="memory_new", group="Do", needs="run"),
    Item(name="New schedule", icon="plus", url_name="schedule_new", group="Do", needs="run"),
    Item(name="Start a workflow", icon="play", url_name="workflow_new", group="Do", needs="run"),
]
SETTINGS = [
    Item(name="Workspace", icon="building-2", url_name="workspace", group="Settings"),
    Item(name="Members", icon="users", url_name="members", group="Settings"),
    Item(name="API keys", icon="key-round", url_name="keys", group="Settings"),
    Item(name="Credits and budgets", icon="wallet", url_name="budgets", group="Settings"),
    Item(name="Webhooks", icon="webhook", url_name="webhooks", group="Settings", needs="admin"),
    Item(name="Model keys", icon="plug", url_name="providers", group="Settings"),
    Item(name="Environments", icon="box", url_name="environments", group="Settings"),
    Item(name="MCP servers", icon="link", url_name="mcp", group="Settings"),
    Item(name="Custom tools", icon="wrench", url_name="custom_tools", group="Settings"),
    Item(name="Skills", icon="book-open", url_name="skills", group="Settings"),
    Item(name="Vault", icon="lock", url_name="vault", group="Settings"),
    Item(name="Terminals", icon="square-terminal", url_name="terminals", group="Settings"),
    Item(name="Account", icon="user", url_name="account", group="Settings"),
]
#: How much waits at a place, by URL name; filled in by the app that knows.
COUNTS: dict[str, Callable[[UUID], int]] = {}
#: How much waits there for one person: takes the workspace's id and theirs.
OWN_COUNTS: dict[str, Callable[[UUID, UUID], int]] = {"inbox": unread_count}


@dataclass(frozen=True, kw_only=True)
class LiveCount:
    """Where a count is told anew while a page is open: see the island `live-count`."""

    socket: str
    #: Of the frames that carry it.
    member: str


#: By page; apps to the right add theirs.
LIVE: dict[str, Callable[[UUID], LiveCount]] = {
    "inbox": lambda workspace_id: LiveCount(socket=f"/ws/inbox/{workspace_id}/", member="unread")
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """An item that exists, as one page sees it."""

    name: str
    icon: str
    url: str
    key: str
    group: str
    is_current: bool
    count: int
    live: LiveCount | None = None


def url_of(url_name: str) -> str | None:
    """The address of a page, or None while nobody has built it."""
    try:
        return reverse(url_name)
    except NoReverseMatch:
        return None


def count_at(url_name: str, workspace_id: UUID | None, person_id: UUID | None) -> int:
    if workspace_id is None:
        return 0
    if own := OWN_COUNTS.get(url_name):
        return own(workspace_id, person_id) if person_id else 0
    count = COUNTS.get(url_name)
    return count(workspace_id) if count else 0


def places(
    items: Iterable[Item],
    *,
    path: str,
    workspace_id: UUID | None,
    person_id: UUID | None = None,
) -> list[Place]:
    """The items that exist, with the one marked that this path lies in."""
    found = []
    for item in items:
        url = url_of(item.url_name)
        if url is None:
            continue
        live = LIVE.get(item.url_name)
        found.append(
            Place(
                name=item.name,
                icon=item.icon,
                url=url,
                key=item.key,
                group=item.group,
                is_current=path == url or (url != "/" and path.startswith(url)),
                count=count_at(item.url_name, workspace_id, person_id),
                live=live(workspace_id) if workspace_id and live else None,
            )
        )
    return found
