"""Opens, finds, shares and closes terminals, for REST, pages and sockets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hmac import compare_digest
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from config.faults import (
    Fault,
    Forbidden,
    Invalid,
    NotFound,
    SessionEnded,
    TerminalOver,
    TooManyTerminals,
)
from orchestrator.engine.starting import find_workflow
from orchestrator.models import Terminal, Workflow
from orchestrator.models.terminal import TerminalQuerySet
from orchestrator.taskagent.minutes import check_task_affordable
from orchestrator.terminals import calling, records
from orchestrator.terminals.place import session_of, task_place_of
from sessions_app.doors import find_session
from sessions_app.models import Session
from sessions_app.sandbox_purses import check_affordable
from tenants.access import Principal, authorise
from tenants.models import Workspace
from tenants.rights import renewed
from tenants.tokens import digest, new_token

Status = Terminal.Status
SHARED_MINUTES, MOST_MINUTES = 60, 7 * 24 * 60


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Somebody who may look at a terminal now, and perhaps type."""

    principal: Principal
    terminal: Terminal
    token: str
    may_write: bool


def open_for(
    principal: Principal,
    *,
    session: UUID | None = None,
    workflow: str | UUID | None = None,
    columns: int = 80,
    rows: int = 24,
) -> Terminal:
    """A new shell for the session or the workflow of this id, whichever was named."""
    if workflow is not None and session is None:
        found = find_workflow(principal, workflow, "run")
        within = session_of(found)
        if within is None:
            task_place_of(found.pk)
        return open_terminal(principal, within, workflow=found, columns=columns, rows=rows)
    if session is None or workflow is not None:
        raise Invalid("Name a session or a workflow.")
    place = find_session(principal, session, "run")
    return open_terminal(principal, place, columns=columns, rows=rows)


def open_terminal(
    principal: Principal,
    session: Session | None,
    *,
    workflow: Workflow | None = None,
    columns: int = 80,
    rows: int = 24,
) -> Terminal:
    """A new shell in the session's sandbox, or the task's. It is open when this returns."""
    workspace_id = authorise(principal, "run", session or workflow)
    if session is None:
        check_task_affordable(workspace_id)
    elif session.archived_at:
        raise SessionEnded
    else:
        check_affordable(session.pk)
    with transaction.atomic():
        # Two requests at once must not both be the last one allowed.
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace_id)
        living = Terminal.objects.for_workspace(workspace_id).living()
        if living.count() >= settings.TERMINALS_PER_WORKSPACE:
            raise TooManyTerminals
        terminal = Terminal.objects.create(
            workspace_id=workspace_id,
            created_by=principal.user,
            session=session,
            workflow=workflow,
            columns=columns,
            rows=rows,
        )
    try:
        calling.ask(do="open", id=str(terminal.pk))
    except Fault as fault:
        records.record_closed(terminal.pk, fault.detail)
        raise
    return Terminal.objects.get(pk=terminal.pk)


def visible_to(principal: Principal) -> TerminalQuerySet:
    """Admins see all of the workspace, everybody else their own."""
    rows = Terminal.objects.for_workspace(principal.workspace_id)
    if not principal.may("admin"):
        rows = rows.filter(created_by=principal.user) if principal.user else rows.none()
    return rows


def find_terminal(principal: Principal, terminal_id: UUID) -> Terminal:
    """A terminal that this identity may close and share."""
    authorise(principal, "run")
    found = visible_to(principal).filter(pk=terminal_id).first()
    if found is None:
        raise NotFound
    return found


def take_seat(principal: Principal, terminal_id: UUID, token: str = "") -> Seat:
    """Let somebody look: with the right to run they type too, unless they came by a shared link."""
    workspace_id = authorise(principal, "read")
    terminal = Terminal.objects.for_workspace(workspace_id).filter(pk=terminal_id).first()
    if terminal is None:
        raise NotFound
    if token:
        _check_token(terminal, token)
    elif not principal.may("run"):
        raise Forbidden("This terminal was not shared with you.")
    if terminal.status != Terminal.Status.OPEN:
        raise TerminalOver(terminal.reason)
    return Seat(principal=principal, terminal=terminal, token=token, may_write=not token)


def keep_seat(seat: Seat) -> Seat:
    """The same, with the rights and the link as they are now."""
    return take_seat(renewed(seat.principal), seat.terminal.pk, seat.token)


def _check_token(terminal: Terminal, token: str) -> None:
    expires = terminal.share_expires
    valid = compare_digest(terminal.share_hash, digest(token))
    if not valid or expires is None or expires < timezone.now():
        raise Forbidden("This link is not valid any more. Ask for a new one.")


def share_terminal(terminal: Terminal, minutes: int = SHARED_MINUTES) -> tuple[str, Terminal]:
    """A token with which members may watch, in place of the one before. It is shown once."""
    if terminal.is_over:
        raise TerminalOver(terminal.reason)
    token = new_token()
    terminal.share_hash = digest(token)
    terminal.share_expires = timezone.now() + timedelta(minutes=minutes)
    terminal.save(update_fields=["share_hash", "share_expires"])
    return token, terminal


def unshare_terminal(terminal: Terminal) -> None:
    """Whoever watches by the link is cut off within seconds."""
    Terminal.objects.filter(pk=terminal.pk).update(share_hash="", share_expires=None)


def close_terminal(terminal: Terminal, principal: Principal) -> None:
    """End it with all that it started. Closing twice is closing once."""
    said = f"Closed by {principal.spoken_name}."
    open_ = Terminal.objects.living().filter(pk=terminal.pk).exclude(status=Status.CLOSING)
    open_.update(status=Status.CLOSING, closed_by=principal.user, reason=said[:300])
    try:
        calling.ask(do="look")
    except Fault:
        # Its host sees the row when it looks next; a dead one's rows are closed for it.
        records.close_left_behind()
