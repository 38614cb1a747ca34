"""The rows of terminals, as their host and the supervisor write them.

A row is `open` only while a host holds the terminal: a host that starts closes what its dead
predecessor left, and the supervisor closes what a lost host left.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from orchestrator.models import Terminal
from sessions_app.log.sql import retry_on_disconnect
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import SessionEvent
from tenants.models import Pulse

log = structlog.get_logger(__name__)

#: The kind of pulse that a host gives.
PULSE = "terminals"
#: How long opening one may take.
OPENING_SECONDS = 60.0
LOST = "The process that ran it is gone."

Status = Terminal.Status


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
