"""The tool with which a canvas sends HTTP requests."""

from __future__ import annotations

import json
import zlib
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
from pydantic import Field

from core.exceptions import EgressRefused, Fault
from core.http import READ_SECONDS, guarded_client
from core.validation import storable, storable_json
from tenants import vault
from tools_app.exceptions import OutcomeUnknown, ToolFailed
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

REQUEST_SECONDS = 60
LARGEST_ANSWER = 500_000
#: What a request may not set itself: it belongs to the connection.
RESERVED = {"host", "content-length", "connection", "transfer-encoding"}
SAFE_METHODS = {"GET", "HEAD"}


class HttpRequest(Arguments):
    url: str = Field(min_length=8, max_length=4096, description="An http or https address.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"] = Field(
        default="GET", description="The method."
    )
    headers: dict[str, str] = Field(
        default={},
        max_length=50,
        description="Headers. {{vault:NAME}} is filled in from the vault.",
    )
    body: Any = Field(default=None, description="Text as it is, anything else as JSON.")


@tool(
    category=Category.WEB,
    permission="always_ask",
    effects=[Effect.NETWORK],
    seconds=REQUEST_SECONDS,
    untrusted=True,
    for_canvas=True,
    title="Send a request",
)
def http_request(arguments: HttpRequest, context: ToolContext) -> dict[str, Any]:
    """Send an HTTP request to a public address. Return its status, headers and body.

    Redirects are not followed: the answer has the address in its headers.
    """
    host = _host_of(arguments.url)
    try:
        headers = {
            name: vault.fill_bound(context.workspace_id, value, host)
            for name, value in arguments.headers.items()
        }
    except Fault as fault:
        raise ToolFailed(fault.detail) from fault
    if reserved := RESERVED & {name.lower() for name in headers}:
        raise ToolFailed(f"The header {min(reserved)} is set by the connection.")
    context.check_stopped()
    answer = _send(arguments, headers, min(context.remaining(), REQUEST_SECONDS))
    return dict(vault.mask_json(context.workspace_id, answer))


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ToolFailed(f"{url[:200]} is not a web address. Give one that starts with https://.")
    return parts.hostname


def _send(arguments: HttpRequest, headers: dict[str, str], seconds: float) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if isinstance(arguments.body, str):
        body = {"content": arguments.body.encode()}
    elif arguments.body is not None:
        body = {"json": arguments.body}
    try:
        with (
            guarded_client("web", timeout=min(seconds, READ_SECONDS), total=seconds) as client,
            client.stream(
                arguments.method, arguments.url, headers=headers, follow_redirects=False, **body
            ) as response,
        ):
            return _read(response)
    except EgressRefused as error:
        raise ToolFailed(error.detail) from error
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise ToolFailed(f"{arguments.url} cannot be reached.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, zlib.error, UnicodeError) as error:
        if arguments.method in SAFE_METHODS:
            raise ToolFailed(f"{arguments.url} did not answer: {error}.") from error
        # The server may have acted on what it received.
        raise OutcomeUnknown(f"{arguments.url} did not answer: {error}.") from error


def _read(response: httpx2.Response) -> dict[str, Any]:
    content = b""
    for part in response.iter_bytes():
        content += part
        if len(content) > LARGEST_ANSWER:
            raise ToolFailed(f"The answer has more than {LARGEST_ANSWER:,} bytes.")
    text = storable(content.decode(response.charset_encoding or "utf-8", "replace"))
    found: Any = text
    if "json" in response.headers.get("content-type", ""):
        try:
            found = storable_json(json.loads(text))
        except ValueError:
            found = text
    headers = {name: storable(value) for name, value in response.headers.items()}
    headers.pop("set-cookie", None)
    return {"status": response.status_code, "headers": headers, "body": found}
