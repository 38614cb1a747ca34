"""The pages of terminals: one terminal, and the list of all."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from core.exceptions import Invalid
from orchestrator.models import Terminal
from orchestrator.pages.labels import subject_of
from orchestrator.terminals import terminals as service
from tenants.access import authorise
from tenants.authentication import principal_of

#: How many closed terminals the list shows.
MAX_CLOSED = 20
#: The lamp's class and the label of each status.
STATUSES = {
    Terminal.Status.OPENING: ("is-waiting", "Opening"),
    Terminal.Status.OPEN: ("is-running", "Open"),
    Terminal.Status.CLOSING: ("is-waiting", "Closing"),
    Terminal.Status.CLOSED: ("is-unknown", "Closed"),
}


@never_cache
@require_safe
# xterm.js writes its own style sheet; scripts stay as restricted as anywhere.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})  # type: ignore[arg-type]
def terminal(request: HttpRequest, terminal_id: UUID) -> HttpResponse:
    """Show a terminal: the caller's own to type in, and one that a link shares to watch."""
    principal, token = principal_of(request), request.GET.get("token", "")
    found = service.find_watchable(principal, terminal_id, token)
    context = {
        **summary_of(found),
        "token": token,
        "may_write": not token,
        "may_take_over": bool(token) and service.may_type(principal, found),
    }
    return render(request, "pages/terminals/terminal.html", context)


@require_POST
def terminal_open(request: HttpRequest) -> HttpResponse:
    """Open a terminal for a session or a workflow, and redirect to it."""
    principal = principal_of(request)
    authorise(principal, "run")
    given = [request.POST.get(name) for name in ("session", "workflow")]
    try:
        session, workflow = (UUID(id) if id else None for id in given)
    except ValueError as error:
        raise Invalid("Name a session or a workflow.") from error
    made = service.open_for(principal, session=session, workflow=workflow)
    return redirect("terminal", made.pk)


@require_POST
def terminal_close(request: HttpRequest, terminal_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    service.close_terminal(service.find_terminal(principal, terminal_id), principal)
    messages.success(request, "The terminal is closed.")
    return redirect("terminals")


@never_cache
@require_safe
def terminals(request: HttpRequest) -> HttpResponse:
    """List the open terminals, and those closed lately."""
    principal = principal_of(request)
    authorise(principal, "read")
    rows = service.visible_to(principal).select_related(*service.RELATED, "created_by")
    closed = rows.filter(status=Terminal.Status.CLOSED)[:MAX_CLOSED]
    context = {
        "open_terminals": [summary_of(one) for one in rows.living()],
        "closed_terminals": [summary_of(one) for one in closed],
        "may_admin": principal.may("admin"),
    }
    return render(request, "pages/terminals/terminals.html", context)


def summary_of(found: Terminal) -> dict[str, Any]:
    """Return what the list and the page show of a terminal."""
    lamp, status = STATUSES[Terminal.Status(found.status)]
    return {"terminal": found, "location": location_of(found), "lamp": lamp, "status": status}


def location_of(found: Terminal) -> str:
    """Return where a terminal is: the title of the session, or what the task is about."""
    if found.session:
        return found.session.title or str(found.session.agent)
    about = found.workflow and subject_of(found.workflow, found.workflow.params)
    return about or "Task"
