"""Opens, finds, shares and closes terminals, for REST, pages and sockets; and keeps their rows true.

A row is `open` only while a host holds the terminal: a host that starts closes what its dead
predecessor left, and the supervisor closes what a lost host left.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from hmac import compare_digest
from pathlib import Path
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from agents.environments import environment_or_default
from core.exceptions import Fault, Forbidden, Invalid, NotFound
from core.ids import digest, new_token
from orchestrator.engine.lifecycle import find_workflow
from orchestrator.exceptions import NoSandbox, TerminalOver, TooManyTerminals
from orchestrator.models import Step, Terminal, TerminalQuerySet, Workflow
from orchestrator.tasks import sandbox as task_sandboxes
from orchestrator.tasks.billing import check_task_affordable
from orchestrator.tasks.sandbox import TaskSandbox, environment_of
from orchestrator.terminals import client
from sessions_app.exceptions import SessionEnded
from sessions_app.log.sql import retry_on_disconnect
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from sessions_app.resources.mounts import persistent_mounts
from sessions_app.sandbox_billing import check_affordable
from sessions_app.sessions import find_session
from tenants.access import Principal, authorise, refresh_principal
from tenants.models import Pulse, Workspace
from tools_app.files import SessionFolder
from tools_app.sandbox.base import Sandbox
from tools_app.sandbox.provisioning import provision

log = structlog.get_logger(__name__)

Status = Terminal.Status
SHARED_MINUTES, MAX_MINUTES = 60, 7 * 24 * 60
#: The kind of pulse that a host gives.
PULSE = "terminals"
#: How long opening one may take.
OPENING_SECONDS = 60.0
LOST = "The process that ran it is gone."
#: The relations that say where a terminal is.
RELATED = ("session__agent__current", "workflow")


@dataclass(frozen=True, kw_only=True)
class TerminalAccess:
    """A principal's current access to a terminal, and whether it may type."""

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
    """Open a shell for the session or the workflow of this id."""
    if workflow is not None and session is None:
        found = find_workflow(principal, workflow, "run")
        within = session_of(found)
        if within is None:
            find_task_sandbox(found.pk)
        return open_terminal(principal, within, workflow=found, columns=columns, rows=rows)
    if session is None or workflow is not None:
        raise Invalid("Name a session or a workflow.")
    found_session = find_session(principal, session, "run")
    return open_terminal(principal, found_session, columns=columns, rows=rows)


def open_terminal(
    principal: Principal,
    session: Session | None,
    *,
    workflow: Workflow | None = None,
    columns: int = 80,
    rows: int = 24,
) -> Terminal:
    """Open a shell in the session's sandbox, or the task's. It is open when this returns."""
    workspace_id = authorise(principal, "run", session or workflow)
    if session is None:
        check_task_affordable(workspace_id)
    elif session.archived_at:
        raise SessionEnded
    else:
        check_affordable(session.pk)
    with transaction.atomic():
        # The lock keeps two requests at once from exceeding the limit.
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
        client.ask(do="open", id=str(terminal.pk))
    except Fault as fault:
        record_closed(terminal.pk, fault.detail)
        raise
    return Terminal.objects.get(pk=terminal.pk)


def visible_to(principal: Principal) -> TerminalQuerySet:
    """Return the terminals that a principal sees: admins all of the workspace, others their own."""
    rows = Terminal.objects.for_workspace(principal.workspace_id)
    # A key that no user made sees the terminals that such keys opened.
    return rows if principal.may("admin") else rows.filter(created_by=principal.user)


def find_terminal(principal: Principal, terminal_id: UUID) -> Terminal:
    """Return a terminal that this principal may type in, close and share."""
    authorise(principal, "run")
    found = visible_to(principal).select_related(*RELATED).filter(pk=terminal_id).first()
    if found is None:
        raise NotFound
    return found


def may_type(principal: Principal, terminal: Terminal) -> bool:
    """Return whether the terminal is the principal's own, so that no link is needed."""
    is_own = principal.may("admin") or terminal.created_by_id == principal.user_id
    return principal.may("run") and is_own


def find_watchable(principal: Principal, terminal_id: UUID, token: str = "") -> Terminal:
    """Return the terminal that a shared link shows, or without a link one of the principal's own."""
    if not token:
        return find_terminal(principal, terminal_id)
    rows = Terminal.objects.for_workspace(authorise(principal, "read")).select_related(*RELATED)
    found = rows.filter(pk=terminal_id).first()
    if found is None:
        raise NotFound
    _check_token(found, token)
    return found


def grant_access(principal: Principal, terminal_id: UUID, token: str = "") -> TerminalAccess:
    """Check who may watch. A shared link never lets anyone type, whatever their role."""
    terminal = find_watchable(principal, terminal_id, token)
    if terminal.status != Terminal.Status.OPEN:
        raise TerminalOver(terminal.reason)
    return TerminalAccess(principal=principal, terminal=terminal, token=token, may_write=not token)


def renew_access(access: TerminalAccess) -> TerminalAccess:
    """Check the access again, with the rights and the link as they are now."""
    return grant_access(refresh_principal(access.principal), access.terminal.pk, access.token)


def _check_token(terminal: Terminal, token: str) -> None:
    expires = terminal.share_expires
    valid = compare_digest(terminal.share_hash, digest(token))
    if not valid or expires is None or expires < timezone.now():
        raise Forbidden("This link has expired. Ask for a new one.")


def share_terminal(terminal: Terminal, minutes: int = SHARED_MINUTES) -> tuple[str, Terminal]:
    """Return a token with which members may watch; it replaces the one before and is shown once."""
    if terminal.is_over:
        raise TerminalOver(terminal.reason)
    token = new_token()
    terminal.share_hash = digest(token)
    terminal.share_expires = timezone.now() + timedelta(minutes=minutes)
    terminal.save(update_fields=["share_hash", "share_expires"])
    return token, terminal


def unshare_terminal(terminal: Terminal) -> None:
    """Revoke the link. Its viewers are disconnected within seconds."""
    Terminal.objects.filter(pk=terminal.pk).update(share_hash="", share_expires=None)


def close_terminal(terminal: Terminal, principal: Principal) -> None:
    """End the terminal with all that it started. Closing it twice is harmless."""
    reason = f"Closed by {principal.spoken_name}."
    open_ = Terminal.objects.living().filter(pk=terminal.pk).exclude(status=Status.CLOSING)
    open_.update(status=Status.CLOSING, closed_by=principal.user, reason=reason[:300])
    try:
        client.ask(do="look")
    except Fault:
        # Its host sees the row at its next check; the rows of a dead host are closed here.
        close_left_behind()


def sandbox_of(terminal: Terminal) -> Sandbox:
    if terminal.session:
        return _session_sandbox(terminal.session)
    task_sandbox = find_task_sandbox(terminal.workflow_id)
    return provision(environment_of(task_sandbox), task_sandbox.folder)


def session_of(workflow: Workflow) -> Session | None:
    """Return the session in whose sandbox the workflow works: that of its latest step with one."""
    steps = Step.objects.filter(workflow=workflow, detail__has_key="session_id")
    newest = steps.order_by("-position").values_list("detail__session_id", flat=True).first()
    rows = Session.objects.for_workspace(workflow.workspace_id).active()
    return rows.filter(pk=UUID(str(newest))).first() if newest else None


def find_task_sandbox(workflow_id: UUID | None) -> TaskSandbox:
    """Return the sandbox of a task's command, while it runs or is kept on this machine."""
    task_sandbox = task_sandboxes.read(workflow_id) if workflow_id else None
    if task_sandbox is None or task_sandbox.session_id:
        raise NoSandbox
    return task_sandbox


def _session_sandbox(session: Session) -> Sandbox:
    """Return a sandbox on the session's files and persistent mounts, without secrets."""
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    environment = environment_or_default(session.workspace_id, session.environment_id)
    return provision(environment, folder, persistent_mounts(session))


# ── Rows, as the host and the supervisor write them ──────────────────────────────────────────────


def machine() -> str:
    return socket.gethostname()[:80]


def record_opened(terminal_id: UUID) -> bool:
    """Record that this process holds the terminal, and log it in the session.

    Return False when the terminal is no longer wanted.
    """
    with transaction.atomic():
        opening = Terminal.objects.filter(pk=terminal_id, status=Status.OPENING)
        taken = opening.update(
            status=Status.OPEN, host=machine(), host_pid=os.getpid(), opened_at=timezone.now()
        )
        if taken:
            _log_opened(Terminal.objects.select_related("created_by").get(pk=terminal_id))
    return bool(taken)


def _log_opened(terminal: Terminal) -> None:
    if terminal.session_id is None:
        return  # the sandbox of a task has no session log
    by = terminal.created_by
    payload = {"terminal_id": str(terminal.pk), "opened_by": by.display_name if by else ""}
    event = NewEvent(type=SessionEvent.Type.TERMINAL_OPENED, payload=payload)
    append_events(terminal.session_id, [event], author_id=terminal.created_by_id)


def record_closed(terminal_id: UUID, reason: str) -> None:
    """Record that it is over, even if the database is away for a while."""
    retry_on_disconnect(lambda _: _close(Terminal.objects.filter(pk=terminal_id), reason))


def _close(terminals: QuerySet[Terminal], reason: str) -> int:
    """Close these terminals. The first reason given is kept."""
    first_reason = Case(When(reason="", then=Value(reason[:300])), default=F("reason"))
    living = terminals.exclude(status=Status.CLOSED)
    return living.update(status=Status.CLOSED, closed_at=timezone.now(), reason=first_reason)


def to_close(ids: Collection[UUID]) -> dict[UUID, str]:
    """Return which of these are to end, and why: they or their session were closed."""
    columns = ("pk", "status", "reason", "session__archived_at")
    rows = Terminal.objects.filter(pk__in=ids).values_list(*columns)
    # A row that is gone was deleted with its session.
    found = dict.fromkeys(ids, "The session was deleted.")
    for id, status, reason, archived_at in rows:
        if status == Status.OPEN and archived_at is None:
            del found[id]
        else:
            found[id] = reason or ("The session was archived." if archived_at else LOST)
    return found


def close_session_terminals(session_id: UUID, reason: str) -> int:
    """Close all terminals of a session. Their host ends them."""
    return _close(Terminal.objects.filter(session_id=session_id), reason)


def close_left_behind() -> int:
    """Close what dead hosts of this machine held. A host does it when it starts."""
    mine = Terminal.objects.living().filter(host=machine(), host_pid__isnull=False)
    pids = set(mine.values_list("host_pid", flat=True))
    dead = {pid for pid in pids if pid == os.getpid() or not Path(f"/proc/{pid}").exists()}
    return _close(mine.filter(host_pid__in=dead), LOST) if dead else 0


def close_lost() -> int:
    """Close what no living host holds. The supervisor does it."""
    now = timezone.now()
    fresh = Pulse.objects.filter(
        kind=PULSE,
        host=OuterRef("host"),
        pid=OuterRef("host_pid"),
        at__gt=now - timedelta(seconds=settings.PULSE_SECONDS),
    )
    held = Q(host_pid__isnull=False)
    late = Q(host_pid__isnull=True, created_at__lt=now - timedelta(seconds=OPENING_SECONDS))
    lost = Terminal.objects.living().filter((held & ~Exists(fresh)) | late)
    if closed := _close(lost, LOST):
        log.warning("terminals_lost", count=closed)
    return closed
