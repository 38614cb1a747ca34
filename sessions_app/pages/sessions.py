"""The list of sessions: search, filters, saved views and the preview, in a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Count, Exists, F, OuterRef, Q, Sum
from django.db.models.functions import Coalesce, Now
from django.db.models.query import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents.models import AgentVersion, Environment
from core.exceptions import Forbidden, NotFound
from sessions_app.log.sql import rows
from sessions_app.log.transcript import newest_history, search_sessions
from sessions_app.models import Run, SavedView, Session, ToolExecution
from sessions_app.models.session import SessionQuerySet
from sessions_app.pages import filters
from sessions_app.pages.filters import SORTS, STATUSES, SessionFilter
from sessions_app.pages.labels import dollars, long_duration, thousands
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
#: Marks that PostgreSQL puts around a found word. A text with these marks only highlights more.
MARK_START, MARK_END = "\x02", "\x03"
HEADLINE_OPTIONS = (
    f"StartSel={MARK_START}, StopSel={MARK_END}, MaxWords=24, MinWords=12, MaxFragments=1"
)
#: Characters of a message that are searched for the headline.
HEADLINE_CHARACTERS = 50_000
FIND_HEADLINES = """
SELECT session_id, seq, ts_headline('english', left(payload ->> 'text', %s), query, %s)
  FROM (SELECT DISTINCT ON (session_id) session_id, seq, payload, query
          FROM session_messages, websearch_to_tsquery('english', %s) query
         WHERE session_id = ANY(%s) AND type IN ('user.message', 'agent.message')
           AND to_tsvector('english', coalesce(payload ->> 'text', '')) @@ query
         ORDER BY session_id, seq DESC) newest
"""


@dataclass(frozen=True, kw_only=True)
class Piece:
    text: str
    is_found: bool


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """An excerpt of the newest message with the words. The template escapes its pieces."""

    seq: int
    pieces: list[Piece]


def find_snippets(session_ids: Sequence[UUID], words: str) -> dict[UUID, Snippet]:
    """Return snippets by session, in one query. A session that matches only by title has none."""
    params = [HEADLINE_CHARACTERS, HEADLINE_OPTIONS, words, list(session_ids)]
    headlines = rows(FIND_HEADLINES, params)
    return {pk: Snippet(seq=seq, pieces=_split_marks(text)) for pk, seq, text in headlines}


def _split_marks(headline: str) -> list[Piece]:
    """Split a headline into found words and the text between them."""
    pieces = []
    for number, part in enumerate(headline.split(MARK_START)):
        found, mark, rest = part.partition(MARK_END)
        if number and mark:
            pieces += [Piece(text=found, is_found=True), Piece(text=rest, is_found=False)]
        else:
            pieces.append(Piece(text=part.replace(MARK_END, ""), is_found=False))
    return [piece for piece in pieces if piece.text]


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
    sessions = _filtered(workspace_id, selected, person_id)
    page = list(_sorted_after_cursor(sessions, selected)[: SESSIONS_PER_PAGE + 1])
    older = ""
    if len(page) > SESSIONS_PER_PAGE:
        last = page[SESSIONS_PER_PAGE - 1]
        older = selected.url_after(last.sort_value, last.pk)
    return SessionPage(rows=_session_rows(page[:SESSIONS_PER_PAGE], selected.q), older=older)


def find_children(session: Session, depth: int) -> list[SessionRow]:
    """Return the sub-agents of a session, oldest first."""
    children = session.children.active().select_related("agent__current")
    return _session_rows(list(children.order_by("created_at", "pk")[:MAX_CHILDREN]), depth=depth)


def _filtered(
    workspace_id: UUID, selected: SessionFilter, person_id: UUID | None
) -> SessionQuerySet:
    rows = Session.objects.for_workspace(workspace_id)
    rows = rows.exclude(archived_at=None) if selected.status == "archived" else rows.active()
    if selected.q:
        rows = search_sessions(rows, selected.q)
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
    rows = rows.annotate(sort_value=SORTS[selected.sorted_by])
    if cursor := selected.cursor:
        side = "gt" if selected.is_rising else "lt"
        beyond = Q(**{f"sort_value__{side}": cursor.value})
        rows = rows.filter(beyond | Q(sort_value=cursor.value, **{f"pk__{side}": cursor.pk}))
    sign = "" if selected.is_rising else "-"
    return rows.select_related("agent__current").order_by(f"{sign}sort_value", f"{sign}pk")


def _session_rows(sessions: list[Session], words: str = "", depth: int = 0) -> list[SessionRow]:
    """Return the table's rows with four more queries, or five if words were searched for."""
    ids = [session.pk for session in sessions]
    children = _count_by(Session.objects.active().filter(parent_id__in=ids), "parent_id")
    calls = ToolExecution.objects.filter(session_id__in=ids)
    failed_runs = _count_by(Run.objects.filter(session_id__in=ids, status__in=FAILED_RUNS))
    failed_calls = _count_by(calls.filter(state__in=FAILED_CALLS))
    approvals = _count_by(calls.filter(state=ToolExecution.State.AWAITING_APPROVAL))
    snippets = find_snippets(ids, words) if words else {}
    return [
        SessionRow(
            session=session,
            lamp=status_label(session)[0],
            status=status_label(session)[1],
            tokens=thousands(session.input_tokens + session.output_tokens),
            cost=dollars(session.cost),
            lasted=long_duration(session.active_at - session.created_at),
            children=children.get(session.pk, 0),
            errors=failed_runs.get(session.pk, 0) + failed_calls.get(session.pk, 0),
            approvals=approvals.get(session.pk, 0),
            snippet=snippets.get(session.pk),
            depth=depth,
        )
        for session in sessions
    ]


def status_label(session: Session) -> tuple[str, str]:
    """Return the lamp and the label of a session's status."""
    status = "archived" if session.archived_at else session.status
    return STATUSES.get(status, ("", session.get_status_display()))


def _count_by(rows: QuerySet, field: str = "session_id") -> Mapping[UUID, int]:
    counts: Iterable[tuple[UUID, int]] = (
        rows.order_by().values_list(field).annotate(number=Count("pk")).values_list(field, "number")
    )
    return dict(counts)


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
