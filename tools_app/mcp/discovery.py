"""Asks servers what they offer, and keeps it: on demand, and now and then in the background."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import Error, transaction
from django.db.models import F
from django.utils import timezone

from agents.environments import default_environment
from config.faults import Fault, McpFailed, OutcomeUnknown
from tenants.masking import mask, mask_json
from tenants.off_loop import let_go
from tools_app.folder import SessionFolder
from tools_app.mcp.catalog import MOST_TOOLS, Catalog, catalog_of
from tools_app.mcp.reach import endpoint_of
from tools_app.mcp.servers import REACH
from tools_app.mcp.words import plain
from tools_app.models import McpServer

log = structlog.get_logger(__name__)

ASK_SECONDS = 20.0
#: How old the list may grow before it is asked for again.
FRESH = timedelta(hours=6)
#: The first wait after a failure; it doubles with each one.
FIRST_WAIT = timedelta(minutes=2)
#: Longer than any refresh takes: whoever claimed it has died.
CLAIM = timedelta(minutes=5)
AT_ONCE = 4
MOST_CLAIMED = 20


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How asking a server went."""

    ok: bool
    error: str
    state: str
    tools: int
    seconds: float
    facts: dict[str, Any]


def look(server: McpServer, stopped: threading.Event | None = None) -> Seen:
    """Ask a server what it offers, and change nothing."""
    began = time.monotonic()
    catalog, told, error, state = Catalog(), None, "", McpServer.Status.OK.value
    try:
        told, catalog = _ask(server, stopped)
    except Fault as fault:
        # Behind a request that was sent and not answered stands what broke.
        broke = fault.__cause__ if isinstance(fault, OutcomeUnknown) else fault
        error, state = fault.detail, getattr(broke, "state", McpServer.Status.FAILED.value)
    facts = {
        "tools": mask_json(server.workspace_id, catalog.tools),
        "left_out": mask_json(server.workspace_id, catalog.left_out),
        "protocol": plain(told.protocol, 20) if told else "",
        "server_info": plain(mask(server.workspace_id, told.server_info), 200) if told else "",
    }
    return Seen(
        ok=not error,
        error=plain(mask(server.workspace_id, error), 1_000),
        state=state,
        tools=len(catalog.tools),
        seconds=round(time.monotonic() - began, 3),
        facts=facts,
    )


def _ask(server: McpServer, stopped: threading.Event | None) -> tuple[Any, Catalog]:
    from tools_app.mcp.client import list_tools

    # What was negotiated once may have changed: a refresh asks anew.
    server.protocol = ""
    endpoint = endpoint_of(server, _place(server) if server.command else None)
    let_go()
    told = list_tools(endpoint, seconds=ASK_SECONDS, most=MOST_TOOLS, stopped=stopped)
    return told, catalog_of(told.tools, complete=told.complete, clean=endpoint.clean)


def _place(server: McpServer) -> Any:
    """A server that is asked outside any session runs in a folder of its own."""
    from tools_app.mcp.stdio import Place
    from tools_app.sandbox import provision

    folder = SessionFolder(workspace_id=server.workspace_id, session_id=server.pk)
    environment = default_environment(server.workspace_id)
    try:
        return Place(folder=folder, sandbox=provision(environment, folder))
    except Fault as fault:
        raise McpFailed(f"{server.name} runs in a sandbox. {fault.detail}") from None


def refresh(server: McpServer) -> McpServer:
    """Ask a server what it offers, and keep it. What was kept before stays if it does not answer."""
    seen = look(server)
    now = timezone.now()
    with transaction.atomic():
        rows = McpServer.objects.select_for_update(no_key=True)
        kept = rows.filter(pk=server.pk).first()
        if kept is None or any(getattr(kept, name) != getattr(server, name) for name in REACH):
            return server  # Changed or deleted meanwhile: what was seen is of another one.
        changes: dict[str, Any] = {"status": seen.state, "error": seen.error, "tried_at": now}
        if seen.ok:
            changes |= seen.facts | {"refreshed_at": now, "failures": 0, "due_at": now + FRESH}
            if seen.facts["tools"] != kept.tools:
                changes["revision"] = F("revision") + 1
        else:
            wait = min(FIRST_WAIT * 2 ** min(kept.failures, 10), FRESH)
            changes |= {"failures": kept.failures + 1, "due_at": now + wait}
        McpServer.objects.filter(pk=server.pk).update(**changes)
    server.refresh_from_db()
    return server


_busy = threading.Lock()


def refresh_due() -> bool:
    """Begin to ask the servers that are due, if nobody here does so already.

    For the supervisor: it returns at once, as a dead server may take its time. Any number of
    supervisors may call it; each server is claimed by one.
    """
    if not _busy.acquire(blocking=False):
        return False
    threading.Thread(target=_refresh_claimed, name="mcp refresh", daemon=True).start()
    return True


def _refresh_claimed() -> None:
    try:
        ids = claim_due()
        let_go()
        if ids:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mcp refresh") as pool:
                list(pool.map(_refresh_one, ids))
    except Error:
        log.warning("mcp_refresh_failed", exc_info=True)
    finally:
        let_go()
        _busy.release()


def claim_due() -> list[UUID]:
    """Take the servers whose time has come. Nobody else takes them for a while."""
    now = timezone.now()
    with transaction.atomic():
        due = McpServer.objects.select_for_update(skip_locked=True, no_key=True)
        found = due.filter(enabled=True, due_at__lte=now).order_by("due_at")[:MOST_CLAIMED]
        ids = [server.pk for server in found.only("pk")]
        McpServer.objects.filter(pk__in=ids).update(due_at=now + CLAIM)
    return ids


def _refresh_one(server_id: UUID) -> None:
    try:
        server = McpServer.objects.filter(pk=server_id, enabled=True).first()
        if server:
            refresh(server)
    except Error:
        log.warning("mcp_refresh_failed", exc_info=True)
    finally:
        let_go()
