"""MCP servers: adds and changes them, and asks them for their tools, on demand and regularly.

Their headers name secrets and never contain one.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

import structlog
from django.db import Error, transaction
from django.db.models import F
from django.utils import timezone
from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from agents.environments import default_environment
from core.db import lock_row, release_connection, save_row
from core.exceptions import Fault
from core.logging import is_secret_name, redact_text
from core.validation import STORABLE, Input, read_change, read_input
from tenants.models import User
from tenants.vault import PLACEHOLDER, mask, mask_json, names_in
from tools_app.exceptions import McpFailed, OutcomeUnknown
from tools_app.files import SessionFolder, shared_dir
from tools_app.mcp.tools import MOST_TOOLS, Catalog, catalog_of, one_line
from tools_app.models import McpServer
from tools_app.registry import Permission

log = structlog.get_logger(__name__)

SERVER_NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,39}$"
MOST_HEADERS = 20
LONGEST_SECONDS = 600
#: Headers that the client sets itself, or that could redirect a request.
RESERVED = re.compile(
    r"(?i)^(host|content-.*|accept|accept-encoding|connection|transfer-encoding|upgrade|te|trailer"
    r"|expect|proxy-.*|mcp-.*|last-event-id)$"
)
_HEADER_NAME = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,80}$")
_SCHEME = re.compile(r"^\s*[A-Za-z]{0,12}\s*$")
_SECRET_WORDS = re.compile(r"(?i)key|token|secret|auth|password|cookie|credential|signature")
IN_VAULT = "Put the value into the vault and write {{vault:NAME}} here."


def _web_address(url: str) -> str:
    if not url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("The address must begin with http:// or https:// and contain a host.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("The address cannot contain a user name, a password or a fragment.")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError("The address must be plain ASCII without spaces.")
    if PLACEHOLDER.search(url) or redact_text(url) != url:
        raise ValueError("The address is shown and logged. Put secrets into a header instead.")
    return url


def _header(name: str, value: str) -> None:
    """Raise ValueError if a header cannot be used."""
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not a valid header name.")
    if RESERVED.match(name):
        raise ValueError(f"{name} is set by Switchyard itself.")
    if len(value) > 2_000 or not value.isprintable():
        raise ValueError(f"{name}: use at most 2,000 printable characters.")
    rest = PLACEHOLDER.sub("", value)
    if "{{" in rest:
        raise ValueError(f"{name}: name a secret as {{{{vault:NAME}}}}.")
    if is_secret_name(name) or _SECRET_WORDS.search(name):
        if not PLACEHOLDER.search(value) or not _SCHEME.fullmatch(rest):
            raise ValueError(f"{name} looks like a credential. {IN_VAULT}")
    elif redact_text(rest) != rest:
        raise ValueError(f"The value of {name} looks like a credential. {IN_VAULT}")


class McpServerInput(Input):
    name: Annotated[str, StringConstraints(pattern=SERVER_NAME_PATTERN)]
    transport: Literal["http", "stdio"] = "http"
    url: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=500),
        AfterValidator(_web_address),
    ] = ""
    headers: dict[str, str] = Field(default_factory=dict, max_length=MOST_HEADERS)
    command: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=2_000), STORABLE
    ] = ""
    enabled: bool = True
    permission: Permission = "always_ask"
    timeout_seconds: int = Field(default=60, ge=1, le=LONGEST_SECONDS, strict=True)
    repeatable_tools: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] = Field(
        default_factory=list, max_length=100
    )

    @field_validator("headers")
    @classmethod
    def one_line(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _header(name, value)
        return headers

    @field_validator("command")
    @classmethod
    def without_secrets(cls, command: str) -> str:
        if PLACEHOLDER.search(command) or redact_text(command) != command:
            raise ValueError("The command runs in the sandbox, which gets no secrets.")
        return command

    @model_validator(mode="after")
    def complete(self) -> McpServerInput:
        if self.transport == "http" and (not self.url or self.command):
            raise ValueError("A server over HTTP needs an address and no command.")
        if self.transport == "stdio" and (not self.command or self.url or self.headers):
            raise ValueError("A server over stdio needs a command, and no address or headers.")
        return self


WHAT = "An MCP server"
#: The fields that decide how the server is reached. A change of them discards its known tools.
REACH_FIELDS = ("transport", "url", "headers", "command")


def add_server(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> McpServer:
    """Add a server. The supervisor asks it for its tools soon; `refresh` does so now."""
    server = McpServer(workspace_id=workspace_id, created_by=created_by)
    return save_row(server, read_input(McpServerInput, fields), what=WHAT)


@transaction.atomic
def change_server(row: McpServer, fields: Mapping[str, Any], *, replace: bool = False) -> McpServer:
    """Change the named fields, or with `replace` all of them. Active runs keep their tools."""
    held = lock_row(row)
    given = read_change(McpServerInput, held, fields, replace=replace)
    if any(getattr(given, name) != getattr(held, name) for name in REACH_FIELDS):
        # It may be another server now, so the known tools are not its tools.
        held.status, held.error, held.protocol = McpServer.Status.NEW, "", ""
        held.tools, held.left_out, held.server_info = [], [], ""
        held.refreshed_at, held.failures = None, 0
    held.due_at = timezone.now()
    held.revision += 1
    return save_row(held, given, what=WHAT)


def secrets_used(workspace_id: UUID) -> dict[str, list[str]]:
    """Return the servers that use each secret, for the page of the vault."""
    used: defaultdict[str, list[str]] = defaultdict(list)
    rows = McpServer.objects.for_workspace(workspace_id).values_list("name", "headers")
    for name, headers in rows:
        for secret in names_in(" ".join(headers.values())):
            used[secret].append(f"MCP server {name}")
    return dict(used)


# ── Asking for tools ─────────────────────────────────────────────────────────

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
    from tools_app.mcp.client import endpoint_of, list_tools

    # The server may support another version by now, so a refresh negotiates again.
    server.protocol = ""
    endpoint = endpoint_of(server, _sandbox_for(server) if server.command else None)
    release_connection()
    told = list_tools(endpoint, seconds=ASK_SECONDS, most=MOST_TOOLS, stopped=stopped)
    return told, catalog_of(told.tools, complete=told.complete, clean=endpoint.clean)


def _sandbox_for(server: McpServer) -> Any:
    """Return a sandbox for a server that is asked outside any session, with its own folder.

    It mounts the directories that all sessions of the workspace's default environment share, as the
    server's program may be in one of them.
    """
    from tools_app.mcp.client import ServerSandbox
    from tools_app.sandbox.base import Mount
    from tools_app.sandbox.provisioning import provision

    folder = SessionFolder(workspace_id=server.workspace_id, session_id=server.pk)
    environment = default_environment(server.workspace_id)
    directories = [one for one in environment.mounts if one["kind"] == "workspace_directory"]
    mounts = [
        Mount(source=source, target=one["mount_path"])
        for one in directories
        if (source := shared_dir(server.workspace_id) / one["source_ref"]).is_dir()
    ]
    try:
        sandbox = provision(environment, folder, tuple(mounts))
        return ServerSandbox(folder=folder, sandbox=sandbox)
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
