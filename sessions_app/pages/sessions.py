"""The list of sessions: search, filters, saved views and the preview, in a constant number of queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, Exists, F, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Coalesce, Now
from django.db.models.query import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents.models import AgentVersion, Environment
from core.exceptions import Forbidden, NotFound
from sessions_app.log.transcript import newest_history
from sessions_app.models import Run, SavedView, Session, ToolExecution
from sessions_app.models.session import SessionQuerySet, period_of
from sessions_app.pages import filters
from sessions_app.pages.filters import SORTS, STATUSES, SessionFilter
from sessions_app.pages.labels import dollars, long_duration, thousands
from sessions_app.search import Snippet, find_matches, find_snippets
from sessions_app.sessions import find_session
from tenants.access import authorise
from tenants.authentication import principal_of
from tenants.models import User

SESSIONS_PER_PAGE = 50
#: Sub-agents of one session in the list. The session's tree shows all of them.
MAX_CHILDREN = 100
MAX_INDENT = 5
MAX_VIEWS = 50
#: Messages in the preview beside the list.
PREVIEW_MESSAGES = 6
FAILED_RUNS = [Run.Status.FAILED, Run.Status.DEAD]
FAILED_CALLS = [ToolExecution.State.ERROR, ToolExecution.State.UNKNOWN]


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """A session as the table shows it."""

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
class SessionPage:
    rows: list[SessionRow]
    #: The address of the next page, or an empty text.
    older: str


def find_sessions(
    workspace_id: UUID, selected: SessionFilter, person_id: UUID | None
) -> SessionPage:
    """Return the page of sessions that the filter selects."""
    rows = _sorted_after_cursor(_filtered(workspace_id, selected, person_id), selected)
    snippets: dict[UUID, Snippet] = {}
    if selected.q:
        matches = find_matches(rows, selected.q, limit=SESSIONS_PER_PAGE + 1)
        snippets = find_snippets(matches, selected.q)
        found = _by_ids(list(matches), selected)
    else:
        found = _by_ids(rows.values("pk")[: SESSIONS_PER_PAGE + 1], selected)
    page = list(found)
    older = ""
    if len(page) > SESSIONS_PER_PAGE:
        last = page[SESSIONS_PER_PAGE - 1]
        older = selected.url_after(last.sort_value, last.pk)
    rows_shown = [_session_row(each, snippets.get(each.pk)) for each in page[:SESSIONS_PER_PAGE]]
    return SessionPage(rows=rows_shown, older=older)


def find_children(session: Session, depth: int) -> list[SessionRow]:
    """Return the sub-agents of a session, oldest first."""
    children = _with_counts(session.children.active()).order_by("created_at", "pk")
    return [_session_row(child, depth=depth) for child in children[:MAX_CHILDREN]]


def _by_ids(ids: Any, selected: SessionFilter) -> SessionQuerySet:
    """Return the sessions of one page. Only these are counted and joined, not all that are sorted."""
    return _sorted(_with_counts(Session.objects.filter(pk__in=ids)), selected)


def _with_counts(rows: SessionQuerySet) -> SessionQuerySet:
    """Add what a row shows, in the same query."""
    calls = ToolExecution.objects.filter(session=OuterRef("pk"))
    return rows.select_related("agent__current").annotate(
        child_count=_count(Session.objects.active().filter(parent=OuterRef("pk")), "parent"),
        failed_runs=_count(Run.objects.filter(session=OuterRef("pk"), status__in=FAILED_RUNS)),
        failed_calls=_count(calls.filter(state__in=FAILED_CALLS)),
        approval_count=_count(calls.filter(state=ToolExecution.State.AWAITING_APPROVAL)),
    )


def _count(rows: QuerySet, field: str = "session") -> Coalesce:
    counts = rows.order_by().values(field).annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counts), 0)


def _filtered(
    workspace_id: UUID, selected: SessionFilter, person_id: UUID | None
) -> SessionQuerySet:
    rows = Session.objects.for_workspace(workspace_id)
    rows = rows.exclude(archived_at=None) if selected.status == "archived" else rows.active()
    if selected.status and selected.status != "archived":
        rows = rows.filter(status=selected.status)
    if selected.agent:
        rows = rows.filter(agent_id=selected.agent)
    if selected.mine:
        rows = rows.filter(created_by_id=person_id)
    if selected.shown_level != "all":
        rows = rows.filter(parent__isnull=selected.shown_level == "top")
    calls = ToolExecution.objects.filter(session=OuterRef("pk"))
    if selected.errors:
        runs = Run.objects.filter(session=OuterRef("pk"), status__in=FAILED_RUNS)
        rows = rows.filter(Exists(runs) | Exists(calls.filter(state__in=FAILED_CALLS)))
    if selected.approval:
        waiting = calls.filter(state=ToolExecution.State.AWAITING_APPROVAL)
        rows = rows.filter(Exists(waiting))
    return rows


def _sorted_after_cursor(rows: SessionQuerySet, selected: SessionFilter) -> SessionQuerySet:
    """Sort the rows and begin after the cursor. A row that moves meanwhile may appear twice."""
    rows = _sorted(rows, selected)
    cursor = selected.cursor
    if cursor is None:
        return rows
    side = "gt" if selected.is_rising else "lt"
    if selected.sorted_by == "active":
        rows = rows.filter(**{f"active_period__{side}e": period_of(cursor.value)})
    beyond = Q(**{f"sort_value__{side}": cursor.value})
    return rows.filter(beyond | Q(sort_value=cursor.value, **{f"pk__{side}": cursor.pk}))


def _sorted(rows: SessionQuerySet, selected: SessionFilter) -> SessionQuerySet:
    order = ["sort_value", "pk"]
    if selected.sorted_by == "active":
        order.insert(0, "active_period")  # for the index; see `Session`
    sign = "" if selected.is_rising else "-"
    return rows.annotate(sort_value=SORTS[selected.sorted_by]).order_by(
        *[f"{sign}{field}" for field in order]
    )


def _session_row(session: Any, snippet: Snippet | None = None, depth: int = 0) -> SessionRow:
    """Return a row of the table. The session comes from `_with_counts`."""
    lamp, label = status_label(session)
    return SessionRow(
        session=session,
        lamp=lamp,
        status=label,
        tokens=thousands(session.input_tokens + session.output_tokens),
        cost=dollars(session.cost),
        lasted=long_duration(session.active_at - session.created_at),
        children=session.child_count,
        errors=session.failed_runs + session.failed_calls,
        approvals=session.approval_count,
        snippet=snippet,
        depth=depth,
    )


def status_label(session: Session) -> tuple[str, str]:
    """Return the lamp and the label of a session's status."""
    status = "archived" if session.archived_at else session.status
    return STATUSES.get(status, ("", session.get_status_display()))


@dataclass(frozen=True, kw_only=True)
class Facts:
    version: AgentVersion
    environment: Environment | None
    creator: User | None
    parent: Session | None
    runs: int
    errors: int
    children: int
    worked: str
    tokens_in: str
    tokens_out: str
    cost: str


def session_facts(session: Session) -> Facts:
    """Return the facts in the head of a session's page, with four queries."""
    related = ["agent_version", "environment", "created_by", "parent"]
    whole = Session.objects.select_related(*related).get(pk=session.pk)
    totals = Run.objects.filter(session=session).aggregate(
        runs=Count("pk"),
        failed=Count("pk", filter=Q(status__in=FAILED_RUNS)),
        worked=Sum(Coalesce(F("finished_at"), Now()) - F("started_at")),
    )
    calls = ToolExecution.objects.filter(session=session, state__in=FAILED_CALLS).count()
    return Facts(
        version=whole.agent_version,
        environment=whole.environment,
        creator=whole.created_by,
        parent=whole.parent,
        runs=totals["runs"],
        errors=totals["failed"] + calls,
        children=session.children.active().count(),
        worked=long_duration(totals["worked"] or timedelta()),
        tokens_in=thousands(whole.input_tokens),
        tokens_out=thousands(whole.output_tokens),
        cost=dollars(Decimal(whole.cost)),
    )


class SavedViewForm(forms.Form):
    name = forms.CharField(max_length=60)
    query = forms.CharField(max_length=1_000, required=False)
    is_shared = forms.BooleanField(required=False)


@require_POST
def view_save(request: HttpRequest) -> HttpResponse:
    """Save the current filters under a name. An existing view of that name is replaced."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    if principal.user is None:
        raise Forbidden("Only a person can save a view.")
    form = SavedViewForm(request.POST)
    query = SessionFilter.from_query(QueryDict(request.POST.get("query", "")[:1_000])).query
    if not form.is_valid():
        messages.error(request, "Enter a name of at most 60 characters.")
        return redirect(f"{reverse('sessions')}?{query}")
    shared = form.cleaned_data["is_shared"] and principal.may("run")
    own = SavedView.objects.for_workspace(workspace_id).filter(person=principal.user)
    name = form.cleaned_data["name"]
    if not own.filter(name=name).exists() and own.count() >= MAX_VIEWS:
        messages.error(request, f"You already have {MAX_VIEWS} views. Delete one first.")
        return redirect(f"{reverse('sessions')}?{query}")
    SavedView.objects.update_or_create(
        workspace_id=workspace_id,
        person=principal.user,
        name=name,
        defaults={"query": query, "is_shared": shared, "created_by": principal.user},
    )
    return redirect(f"{reverse('sessions')}?{query}")


@require_POST
def view_delete(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Delete a saved view. Only its owner may, or an admin if it is shared."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    person_id = principal.user_id
    views = SavedView.objects.for_workspace(workspace_id).seen_by(person_id)
    view = views.filter(pk=view_id).first()
    if view is None:
        raise NotFound
    if view.person_id != person_id:
        authorise(principal, "admin")
    view.delete()
    return redirect("sessions")


@never_cache
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    selected = SessionFilter.from_query(request.GET)
    views = filters.saved_views(workspace_id, principal.user_id, selected)
    page = find_sessions(workspace_id, selected, principal.user_id)
    is_unfiltered = not (selected.is_narrowed or selected.level or selected.after)
    context = {
        "found": page,
        "is_bare": is_unfiltered and not page.rows and not views,
        "wanted": selected,
        "statuses": filters.status_chips(selected),
        "flags": filters.flag_chips(selected),
        "levels": filters.level_chips(selected),
        "agents": filters.agent_choices(workspace_id),
        "columns": filters.columns(selected),
        "views": views,
        "is_saved": any(view.is_on for view in views),
        "may_run": principal.may("run"),
    }
    return render(request, "pages/sessions/sessions.html", context)


@never_cache
@require_safe
def session_preview(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Render the preview of a session beside the list."""
    session = find_session(principal_of(request), session_id)
    lamp, label = status_label(session)
    context = {
        "session": session,
        "lamp": lamp,
        "status": label,
        "facts": session_facts(session),
        "said": newest_history(session, limit=PREVIEW_MESSAGES),
    }
    return render(request, "pages/sessions/preview.html", context)


@never_cache
@require_safe
def session_children(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Render the rows of a session's sub-agents, which open below its row."""
    session = find_session(principal_of(request), session_id)
    text = request.GET.get("depth", "1")
    is_number = text.isascii() and text.isdigit() and len(text) < 3
    depth = min(int(text), MAX_INDENT) if is_number else 1
    rows = find_children(session, max(1, depth))
    return render(request, "pages/sessions/children.html", {"rows": rows})
