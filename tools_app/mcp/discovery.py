"""Asks MCP servers for their tools and stores them: on demand, and regularly in the background."""

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
from core.db import release_connection
from core.exceptions import Fault
from tenants.vault import mask, mask_json
from tools_app.exceptions import McpFailed, OutcomeUnknown
from tools_app.files import SessionFolder
from tools_app.mcp.servers import REACH_FIELDS, endpoint_of
from tools_app.mcp.tools import MOST_TOOLS, Catalog, catalog_of, one_line
from tools_app.models import McpServer

log = structlog.get_logger(__name__)

ASK_SECONDS = 20.0
#: How old a list of tools may get before it is asked for again.
FRESH = timedelta(hours=6)
#: The first wait after a failure. It doubles with each further one.
FIRST_WAIT = timedelta(minutes=2)
#: Longer than any refresh takes, so an expired claim belongs to a process that died.
CLAIM = timedelta(minutes=5)
AT_ONCE = 4
MOST_CLAIMED = 20


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The outcome of asking a server for its tools."""

    ok: bool
    error: str
    state: str
    tools: int
    seconds: float
    facts: dict[str, Any]


def probe(server: McpServer, stopped: threading.Event | None = None) -> ProbeResult:
    """Ask a server for its tools and store nothing."""
    began = time.monotonic()
    catalog, told, error, state = Catalog(), None, "", McpServer.Status.OK.value
    try:
        told, catalog = _ask(server, stopped)
    except Fault as fault:
        # The cause of an unanswered request says what broke.
        broke = fault.__cause__ if isinstance(fault, OutcomeUnknown) else fault
        error, state = fault.detail, getattr(broke, "state", McpServer.Status.FAILED.value)
    facts = {
        "tools": mask_json(server.workspace_id, catalog.tools),
        "left_out": mask_json(server.workspace_id, catalog.left_out),
        "protocol": one_line(told.protocol, 20) if told else "",
        "server_info": one_line(mask(server.workspace_id, told.server_info), 200) if told else "",
    }
    return ProbeResult(
        ok=not error,
        error=one_line(mask(server.workspace_id, error), 1_000),
        state=state,
        tools=len(catalog.tools),
        seconds=round(time.monotonic() - began, 3),
        facts=facts,
    )


def _ask(server: McpServer, stopped: threading.Event | None) -> tuple[Any, Catalog]:
    from tools_app.mcp.client import list_tools

    # The server may support another version by now, so a refresh negotiates again.
    server.protocol = ""
    endpoint = endpoint_of(server, _place(server) if server.command else None)
    release_connection()
    told = list_tools(endpoint, seconds=ASK_SECONDS, most=MOST_TOOLS, stopped=stopped)
    return told, catalog_of(told.tools, complete=told.complete, clean=endpoint.clean)


def _place(server: McpServer) -> Any:
    """Return a sandbox for a server that is asked outside any session, with its own folder."""
    from tools_app.mcp.client import ServerSandbox
    from tools_app.sandbox.provisioning import provision

    folder = SessionFolder(workspace_id=server.workspace_id, session_id=server.pk)
    environment = default_environment(server.workspace_id)
    try:
        return ServerSandbox(folder=folder, sandbox=provision(environment, folder))
    except Fault as fault:
        raise McpFailed(f"{server.name} runs in a sandbox. {fault.detail}") from None


def refresh(server: McpServer) -> McpServer:
    """Ask a server for its tools and store them. If it does not answer, the old ones stay."""
    seen = probe(server)
    now = timezone.now()
    with transaction.atomic():
        rows = McpServer.objects.select_for_update(no_key=True)
        kept = rows.filter(pk=server.pk).first()
        if kept is None or any(
            getattr(kept, name) != getattr(server, name) for name in REACH_FIELDS
        ):
            return server  # Changed or deleted meanwhile: the tools are those of another server.
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
    """Start asking the servers that are due, unless this process is doing so already.

    For the supervisor: it returns at once, as a dead server may be slow. Any number of supervisors
    may call it; each server is claimed by one of them.
    """
    if not _busy.acquire(blocking=False):
        return False
    threading.Thread(target=_refresh_claimed, name="mcp refresh", daemon=True).start()
    return True


def _refresh_claimed() -> None:
    try:
        ids = claim_due()
        release_connection()
        if ids:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mcp refresh") as pool:
                list(pool.map(_refresh_one, ids))
    except Error:
        log.warning("mcp_refresh_failed", exc_info=True)
    finally:
        release_connection()
        _busy.release()


def claim_due() -> list[UUID]:
    """Claim the servers that are due. No other process gets them for a while."""
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
        release_connection()
