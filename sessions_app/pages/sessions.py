"""The list of sessions: searched, narrowed, sorted, with one of them open beside it."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions_app.doors import find_session
from sessions_app.history import newest_history
from sessions_app.pages import chips
from sessions_app.pages.facts import facts_of
from sessions_app.pages.found import find_children, find_sessions, status_of
from sessions_app.pages.wanted import Wanted
from tenants.access import authorise
from tenants.authentication import principal_of

#: Messages that the pane beside the list shows.
PREVIEWED = 6
DEEPEST = 5


@never_cache
@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    wanted = Wanted.in_request(request)
    person_id = principal.user_id
    views = chips.saved_views(workspace_id, person_id, wanted)
    found = find_sessions(workspace_id, wanted, person_id)
    is_whole = not (wanted.is_narrowed or wanted.level or wanted.after)
    context = {
        "found": found,
        "is_bare": is_whole and not found.rows and not views,
        "wanted": wanted,
        "statuses": chips.status_chips(wanted),
        "flags": chips.flag_chips(wanted),
        "levels": chips.level_chips(wanted),
        "agents": chips.agent_choices(workspace_id),
        "columns": chips.columns(wanted),
        "views": views,
        "is_saved": any(view.is_on for view in views),
        "may_run": principal.may("run"),
    }
    return render(request, "pages/sessions/sessions.html", context)


@never_cache
@require_safe
def session_preview(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """A session as it opens beside the list: a piece of a page."""
    session = find_session(principal_of(request), session_id)
    lamp, word = status_of(session)
    context = {
        "session": session,
        "lamp": lamp,
        "status": word,
        "facts": facts_of(session),
        "said": newest_history(session, limit=PREVIEWED),
    }
    return render(request, "pages/sessions/preview.html", context)


@never_cache
@require_safe
def session_children(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The rows below a row: a piece of the list."""
    session = find_session(principal_of(request), session_id)
    asked = request.GET.get("depth", "1")
    depth = (
        min(int(asked), DEEPEST) if asked.isascii() and asked.isdigit() and len(asked) < 3 else 1
    )
    rows = find_children(session, max(1, depth))
    return render(request, "pages/sessions/children.html", {"rows": rows})
