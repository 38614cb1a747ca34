"""Adds and changes MCP servers. Their headers name secrets and never contain one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from agents.named_rows import lock_row, read_change, save_row
from core.logging import is_secret_name, redact_text
from core.validation import STORABLE, Input, read_input
from tenants.models import User
from tenants.vault import PLACEHOLDER, fill, mask, names_in
from tools_app.exceptions import McpFailed
from tools_app.models import McpServer
from tools_app.registry import Permission

if TYPE_CHECKING:
    from tools_app.mcp.client import Endpoint, ServerSandbox

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


def endpoint_of(server: McpServer, place: ServerSandbox | None = None) -> Endpoint:
    """Return the endpoint for one request. It reads the vault: release the connection after it."""
    from tools_app.mcp.client import Endpoint

    host = urlsplit(server.url).hostname or ""
    headers = {
        name: _check_header_value(name, fill(server.workspace_id, value, host=host))
        for name, value in server.headers.items()
    }
    return Endpoint(
        name=server.name,
        url=server.url,
        headers=headers,
        command=server.command,
        place=place,
        clean=partial(mask, server.workspace_id),
        protocol=server.protocol,
    )


def _check_header_value(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise McpFailed(f"The header {name} cannot be sent: a secret in it is not plain ASCII.")
    return value


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
