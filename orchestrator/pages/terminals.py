"""The pages of terminals: one on its own page, and the list for those who look after them."""

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

from config.faults import Forbidden, Invalid, NotFound
from orchestrator.models import Terminal
from orchestrator.pages.subject import subject_of
from orchestrator.terminals import desk
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

#: What the list shows of the past.
MOST_CLOSED = 20
#: What says where it is.
PLACE = ("session__agent__current", "workflow")
#: How a terminal stands, as a lamp and a word.
STATUSES = {
    Terminal.Status.OPENING: ("is-waiting", "Opening"),
    Terminal.Status.OPEN: ("is-running", "Open"),
    Terminal.Status.CLOSING: ("is-waiting", "Closing"),
    Terminal.Status.CLOSED: ("is-unknown", "Closed"),
}


@never_cache
@require_safe
# The screen writes its own style sheet; scripts stay as confined as anywhere.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})  # type: ignore[arg-type]
def terminal(request: HttpRequest, terminal_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    rows = Terminal.objects.for_workspace(workspace_id).select_related(*PLACE)
    found = rows.filter(pk=terminal_id).first()
    if found is None:
        raise NotFound
    token = request.GET.get("token", "")
    if not token and not principal.may("run"):
        raise Forbidden("This terminal was not shared with you.")
    context = {
        "terminal": found,
        "place": place_of(found),
        "token": token,
        "may_write": not token,
        "may_close": not token and may_close(principal, found),
        "state": STATUSES[Terminal.Status(found.status)],
    }
    return render(request, "pages/terminals/terminal.html", context)


def may_close(principal: Principal, found: Terminal) -> bool:
    return principal.may("admin") or (
        principal.user is not None and found.created_by_id == principal.user.pk
    )


@require_POST
def terminal_open(request: HttpRequest) -> HttpResponse:
    """Open one for a session or a workflow, and go there."""
    principal = principal_of(request)
    authorise(principal, "run")
    named = [request.POST.get(name) for name in ("session", "workflow")]
    try:
        session, workflow = (UUID(asked) if asked else None for asked in named)
    except ValueError as error:
        raise Invalid("Name a session or a workflow.") from error
    made = desk.open_for(principal, session=session, workflow=workflow)
    return redirect("terminal", made.pk)


@require_POST
def terminal_close(request: HttpRequest, terminal_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    desk.close_terminal(desk.find_terminal(principal, terminal_id), principal)
    messages.success(request, "The terminal is closed.")
    return redirect("terminals")


@never_cache
@require_safe
def terminals(request: HttpRequest) -> HttpResponse:
    """What is open now, and what was lately."""
    principal = principal_of(request)
    authorise(principal, "read")
    rows = desk.visible_to(principal).select_related(*PLACE, "created_by")
    living = list(rows.living())
    closed = list(rows.filter(status=Terminal.Status.CLOSED)[:MOST_CLOSED])
    context = {
        "living": [line(one) for one in living],
        "closed": [line(one) for one in closed],
        "may_admin": principal.may("admin"),
    }
    return render(request, "pages/terminals/terminals.html", context)


def line(found: Terminal) -> dict[str, Any]:
    lamp, word = STATUSES[Terminal.Status(found.status)]
    return {"terminal": found, "place": place_of(found), "lamp": lamp, "word": word}


def place_of(found: Terminal) -> str:
    """Where it is, as people call it: the conversation, or what the task is about."""
    if found.session:
        return found.session.title or str(found.session.agent)
    about = found.workflow and subject_of(found.workflow, found.workflow.params)
    return about or "A task"
