"""One page of the list of sessions, with all that its rows tell, in a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.query import QuerySet

from sessions_app.models import Run, Session, ToolExecution
from sessions_app.models.session import SessionQuerySet
from sessions_app.pages.snippets import Snippet, find_snippets
from sessions_app.pages.wanted import SORTS, STATUSES, Wanted
from sessions_app.pages.words import dollars, lasting, thousands
from sessions_app.transcript import mentioning

PAGE = 50
#: Of one session; the page of its tree shows them all.
MOST_CHILDREN = 100
FAILED_RUNS = [Run.Status.FAILED, Run.Status.DEAD]
FAILED_CALLS = [ToolExecution.State.ERROR, ToolExecution.State.UNKNOWN]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One session, as the table shows it."""

    session: Session
    lamp: str
    status: str
    tokens: str
    cost: str
    lasted: str
    children: int
    errors: int
    approvals: int
    snippet: Snippet | None
    depth: int


@dataclass(frozen=True, kw_only=True)
class Found:
    rows: list[Row]
    #: The address of what comes after them, or nothing.
    older: str


def find_sessions(workspace_id: UUID, wanted: Wanted, person_id: UUID | None) -> Found:
    """The first rows after the cursor."""
    sessions = narrowed(workspace_id, wanted, person_id)
    page = list(placed(sessions, wanted)[: PAGE + 1])
    older = ""
    if len(page) > PAGE:
        last = page[PAGE - 1]
        older = wanted.url_after(last.sort_value, last.pk)
    return Found(rows=rows_of(page[:PAGE], wanted.q), older=older)


def find_children(session: Session, depth: int) -> list[Row]:
    """The sub-agents of a session, in the order in which they were made."""
    children = session.children.active().select_related("agent__current")
    return rows_of(list(children.order_by("created_at", "pk")[:MOST_CHILDREN]), depth=depth)


def narrowed(workspace_id: UUID, wanted: Wanted, person_id: UUID | None) -> SessionQuerySet:
    rows = Session.objects.for_workspace(workspace_id)
    rows = rows.exclude(archived_at=None) if wanted.status == "archived" else rows.active()
    if wanted.q:
        rows = mentioning(rows, wanted.q)
    if wanted.status and wanted.status != "archived":
        rows = rows.filter(status=wanted.status)
    if wanted.agent:
        rows = rows.filter(agent_id=wanted.agent)
    if wanted.mine:
        rows = rows.filter(created_by_id=person_id)
    if wanted.shown_level != "all":
        rows = rows.filter(parent__isnull=wanted.shown_level == "top")
    calls = ToolExecution.objects.filter(session=OuterRef("pk"))
    if wanted.errors:
        runs = Run.objects.filter(session=OuterRef("pk"), status__in=FAILED_RUNS)
        rows = rows.filter(Exists(runs) | Exists(calls.filter(state__in=FAILED_CALLS)))
    if wanted.approval:
        waiting = calls.filter(state=ToolExecution.State.AWAITING_APPROVAL)
        rows = rows.filter(Exists(waiting))
    return rows


def placed(rows: SessionQuerySet, wanted: Wanted) -> SessionQuerySet:
    """In order, from the cursor on. A row that moves meanwhile is seen twice at worst."""
    rows = rows.annotate(sort_value=SORTS[wanted.sorted_by])
    if cursor := wanted.cursor:
        side = "gt" if wanted.is_rising else "lt"
        beyond = Q(**{f"sort_value__{side}": cursor.value})
        rows = rows.filter(beyond | Q(sort_value=cursor.value, **{f"pk__{side}": cursor.pk}))
    sign = "" if wanted.is_rising else "-"
    return rows.select_related("agent__current").order_by(f"{sign}sort_value", f"{sign}pk")


def rows_of(sessions: list[Session], words: str = "", depth: int = 0) -> list[Row]:
    """Four queries more, however many rows; five when words were searched for."""
    ids = [session.pk for session in sessions]
    children = _counted(Session.objects.active().filter(parent_id__in=ids), "parent_id")
    calls = ToolExecution.objects.filter(session_id__in=ids)
    runs = _counted(Run.objects.filter(session_id__in=ids, status__in=FAILED_RUNS))
    failed = _counted(calls.filter(state__in=FAILED_CALLS))
    waiting = _counted(calls.filter(state=ToolExecution.State.AWAITING_APPROVAL))
    snippets = find_snippets(ids, words) if words else {}
    return [
        row_of(
            session,
            children=children.get(session.pk, 0),
            errors=runs.get(session.pk, 0) + failed.get(session.pk, 0),
            approvals=waiting.get(session.pk, 0),
            snippet=snippets.get(session.pk),
            depth=depth,
        )
        for session in sessions
    ]


def row_of(
    session: Session,
    *,
    children: int = 0,
    errors: int = 0,
    approvals: int = 0,
    snippet: Snippet | None = None,
    depth: int = 0,
) -> Row:
    lamp, word = status_of(session)
    return Row(
        session=session,
        lamp=lamp,
        status=word,
        tokens=thousands(session.input_tokens + session.output_tokens),
        cost=dollars(session.cost),
        lasted=lasting(session.active_at - session.created_at),
        children=children,
        errors=errors,
        approvals=approvals,
        snippet=snippet,
        depth=depth,
    )


def status_of(session: Session) -> tuple[str, str]:
    """The lamp and the word of what a session is doing."""
    status = "archived" if session.archived_at else session.status
    return STATUSES.get(status, ("", session.get_status_display()))


def _counted(rows: QuerySet, by: str = "session_id") -> Mapping[UUID, int]:
    counted: Iterable[tuple[UUID, int]] = (
        rows.order_by().values_list(by).annotate(number=Count("pk")).values_list(by, "number")
    )
    return dict(counted)
