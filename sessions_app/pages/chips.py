"""The ways to narrow and sort the list of sessions, each as an address."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from agents.models import Agent
from sessions_app.models import SavedView
from sessions_app.pages.wanted import LEVELS, STATUSES, Wanted


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One choice. A chip that is on takes its choice back."""

    name: str
    url: str
    is_on: bool
    lamp: str = ""


@dataclass(frozen=True, kw_only=True)
class Column:
    """The head of a column that the list can be sorted by."""

    name: str
    key: str
    url: str
    #: For screen readers: `ascending`, `descending` or nothing.
    order: str
    is_number: bool


@dataclass(frozen=True, kw_only=True)
class View:
    """A list that somebody gave a name to."""

    view_id: UUID
    name: str
    url: str
    is_on: bool
    is_own: bool
    is_shared: bool


COLUMNS = [
    ("Last activity", "active", False),
    ("Events", "events", True),
    ("Tokens", "tokens", True),
    ("Cost", "cost", True),
    ("Duration", "lasted", True),
]
FLAGS = [("errors", "Has errors"), ("approval", "Needs approval"), ("mine", "By me")]


def status_chips(wanted: Wanted) -> list[Chip]:
    return [
        Chip(
            name=word,
            lamp=lamp,
            is_on=wanted.status == value,
            url=wanted.url(status="" if wanted.status == value else value),
        )
        for value, (lamp, word) in STATUSES.items()
    ]


def flag_chips(wanted: Wanted) -> list[Chip]:
    return [
        Chip(
            name=word,
            is_on=bool(getattr(wanted, name)),
            url=wanted.url(**{name: "" if getattr(wanted, name) else "1"}),
        )
        for name, word in FLAGS
    ]


def level_chips(wanted: Wanted) -> list[Chip]:
    return [
        Chip(name=word, is_on=wanted.shown_level == value, url=wanted.url(level=value))
        for value, word in LEVELS.items()
    ]


def agent_choices(workspace_id: UUID) -> list[tuple[str, str]]:
    """Every agent by its id. One query."""
    agents = Agent.objects.for_workspace(workspace_id).active().known().select_related("current")
    return [(str(agent.pk), str(agent)) for agent in agents.order_by("created_at", "pk")]


def columns(wanted: Wanted) -> list[Column]:
    """A head that is pressed again turns the order round."""
    heads = []
    for name, key, is_number in COLUMNS:
        is_on = wanted.sorted_by == key
        falls = is_on and not wanted.is_rising
        order = "descending" if falls else "ascending" if is_on else ""
        sort = f"-{key}" if falls else "" if key == "active" else key
        url = wanted.url(sort=sort)
        heads.append(Column(name=name, key=key, url=url, order=order, is_number=is_number))
    return heads


def saved_views(workspace_id: UUID, person_id: UUID | None, wanted: Wanted) -> list[View]:
    """One query."""
    views = SavedView.objects.for_workspace(workspace_id).seen_by(person_id)
    return [
        View(
            view_id=view.pk,
            name=view.name,
            url=f"?{view.query}",
            is_on=view.query == wanted.query,
            is_own=view.person_id == person_id,
            is_shared=view.is_shared,
        )
        for view in views
    ]
