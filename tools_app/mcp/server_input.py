"""What may be said about an MCP server. Its headers name secrets and never hold one."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from agents.inputs import STORABLE, Input
from config.redaction import is_secret_name, redact_text
from tenants.vault import PLACEHOLDER
from tools_app.registry import Permission

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,39}$"
MOST_HEADERS = 20
LONGEST_SECONDS = 600
#: Written by the client itself, or able to lead a request astray.
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
        raise ValueError("The address must begin with http:// or https:// and name a host.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("The address cannot hold a name, a password or a fragment.")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError("The address is made of plain characters, without spaces.")
    if PLACEHOLDER.search(url) or redact_text(url) != url:
        raise ValueError("An address is shown and logged, so it holds no secret. Use a header.")
    return url


def _header(name: str, value: str) -> None:
    """Raise what is wrong with one header."""
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of a header.")
    if RESERVED.match(name):
        raise ValueError(f"{name} is written by the client itself.")
    if len(value) > 2_000 or not value.isprintable():
        raise ValueError(f"{name}: a value has at most 2,000 characters, all of them printable.")
    rest = PLACEHOLDER.sub("", value)
    if "{{" in rest:
        raise ValueError(f"{name}: a secret is named as {{{{vault:NAME}}}}.")
    if is_secret_name(name) or _SECRET_WORDS.search(name):
        if not PLACEHOLDER.search(value) or not _SCHEME.fullmatch(rest):
            raise ValueError(f"{name} looks like a credential. {IN_VAULT}")
    elif redact_text(rest) != rest:
        raise ValueError(f"The value of {name} looks like a credential. {IN_VAULT}")


class McpServerInput(Input):
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
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
    def plain(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _header(name, value)
        return headers

    @field_validator("command")
    @classmethod
    def without_secrets(cls, command: str) -> str:
        if PLACEHOLDER.search(command) or redact_text(command) != command:
            raise ValueError("A command runs in the sandbox, where no secret is put.")
        return command

    @model_validator(mode="after")
    def complete(self) -> McpServerInput:
        if self.transport == "http" and (not self.url or self.command):
            raise ValueError("A server over HTTP has an address and no command.")
        if self.transport == "stdio" and (not self.command or self.url or self.headers):
            raise ValueError("A server over stdio has a command, and no address or headers.")
        return self
