"""Turns what went wrong on the way to an MCP server into words: down, refused, or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx2
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from config.faults import Fault, McpFailed
from tools_app.mcp.words import plain, unmasked

#: The client library's own code for a connection that ended before the answer came.
CONNECTION_CLOSED = -32000
#: The same for an answer that it could not read, of which it then tells a piece.
UNREADABLE = -32700
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the connection itself has seen."""

    name: str
    seconds: float
    status: int = 0
    refusal: str = ""
    #: Takes secrets out. Before anything is cut: half a secret would not be found.
    clean: Callable[[str], str] = unmasked

    def quote(self, text: str) -> str:
        return plain(self.clean(text))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def is_sent(error: BaseException) -> bool:
    """Whether the server may have got the request, so that nobody knows what it did."""
    found = list(leaves(error))
    return not any(isinstance(one, NEVER_SENT) for one in found) and any(
        isinstance(one, TimeoutError | httpx2.TransportError)
        or (isinstance(one, MCPError) and one.code == CONNECTION_CLOSED)
        for one in found
    )


def failure_of(error: BaseException, seen: Evidence) -> Fault:
    """The fault that says who has to do something about it."""
    faults = [one for one in leaves(error) if isinstance(one, Fault)]
    if faults:
        return faults[0]
    if seen.refusal:
        return McpFailed(f"{seen.name}: {seen.refusal}")
    if seen.status in {401, 403}:
        return McpFailed(
            f"{seen.name} refuses the credentials (HTTP {seen.status}). Check its headers, and the "
            "secrets that they name in the vault.",
            state="refused",
        )
    if 300 <= seen.status < 400:
        return McpFailed(
            f"{seen.name} leads to another address. Use that address itself.", state="refused"
        )
    return _by_kind(next(iter(leaves(error))), seen)


def _by_kind(error: BaseException, seen: Evidence) -> Fault:
    match error:
        case TimeoutError() | httpx2.TimeoutException():
            return McpFailed(f"{seen.name} did not answer within {seen.seconds:g} s.", state="down")
        case httpx2.ConnectError():
            return McpFailed(
                f"{seen.name} cannot be reached: {seen.quote(str(error))}", state="down"
            )
        case httpx2.TransportError():
            return McpFailed(
                f"The connection to {seen.name} broke: {seen.quote(str(error))}", state="down"
            )
        case MCPError() if error.code == CONNECTION_CLOSED:
            return McpFailed(f"The connection to {seen.name} broke.", state="down")
        case MCPError() if seen.status >= 500 or seen.status == 429:
            return McpFailed(
                f"{seen.name} answers HTTP {seen.status}. It may be overloaded.", state="down"
            )
        case MCPError() if seen.status == 404:
            return McpFailed(f"{seen.name}: there is no MCP server at this address (HTTP 404).")
        case MCPError() if error.code == UNREADABLE:
            return McpFailed(f"{seen.name} answers something that is no valid MCP.")
        case MCPError():
            return McpFailed(
                f"{seen.name} refuses: {seen.quote(error.message)} (code {error.code})"
            )
        case ValidationError():
            return McpFailed(f"{seen.name} answers something that is no valid MCP.")
        case _:
            return McpFailed(
                f"{seen.name} failed: {seen.quote(str(error)) or type(error).__name__}"
            )
