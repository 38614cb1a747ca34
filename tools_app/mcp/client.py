"""Speaks to one MCP server: a connection per errand, on an event loop of the caller's thread.

Nothing is shared between errands, so a server that hangs or floods holds up nobody else. Not
imported before the first errand: the library takes a second to load.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from config.faults import OutcomeUnknown, ToolStopped
from tenants.egress_async import AsyncGuardedTransport
from tools_app.context import LOOK_UP_SECONDS
from tools_app.mcp.failures import Evidence, failure_of, is_sent
from tools_app.mcp.stdio import Pipes, Place
from tools_app.mcp.words import unmasked

T = TypeVar("T")
CONNECT_SECONDS = 10.0
LARGEST_ANSWER = 8_000_000
MOST_PAGES = 20


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """How a server is reached, its secrets filled in. Made for one errand and thrown away."""

    name: str
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    command: str = ""
    #: Where a command runs.
    place: Place | None = None
    #: Takes the secrets out of what comes back.
    clean: Callable[[str], str] = unmasked
    #: As it was last negotiated; saves a round trip.
    protocol: str = ""

    @property
    def mode(self) -> str:
        if not self.protocol:
            return "auto"
        return self.protocol if self.protocol in MODERN_PROTOCOL_VERSIONS else "legacy"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a server says it offers, as it says it."""

    tools: list[types.Tool]
    complete: bool
    protocol: str
    server_info: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a call, and whether the server said meanwhile that its tools have changed."""

    result: types.CallToolResult
    tools_changed: bool


class Errand:
    """One connection, with the evidence of how it went."""

    def __init__(self, endpoint: Endpoint, seconds: float, stopped: threading.Event) -> None:
        self._endpoint, self._seconds, self._stopped = endpoint, seconds, stopped
        self._http: AsyncGuardedTransport | None = None
        self._pipes: Pipes | None = None
        #: Whether the request itself may have left, as against the greeting before it.
        self._begun = False
        self.tools_changed = False

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Connect, do the work, and say in a fault what went wrong."""
        done: list[T] = []
        try:
            anyio.run(self._run, work, done)
        except Exception as error:  # noqa: BLE001 - every kind of it is told as a fault
            if done:
                return done[0]  # Only the farewell went wrong.
            fault = failure_of(error, self._evidence())
            if self._begun and is_sent(error):
                raise OutcomeUnknown(fault.detail) from fault
            raise fault from None
        if not done:
            raise ToolStopped
        return done[0]

    async def _run(self, work: Callable[[Client], Awaitable[T]], done: list[T]) -> None:
        with anyio.fail_after(self._seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, group.cancel_scope)
                async with self._transport() as transport, self._client(transport) as client:
                    self._begun = True
                    done.append(await work(client))
                group.cancel_scope.cancel()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        while not self._stopped.is_set():
            await anyio.sleep(LOOK_UP_SECONDS)
        scope.cancel()

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
        if self._endpoint.command:
            self._pipes = Pipes(self._endpoint.command, self._endpoint.place, self._seconds)
            yield self._pipes.open()
            return
        self._http = AsyncGuardedTransport(largest=LARGEST_ANSWER)
        async with httpx2.AsyncClient(
            transport=self._http,
            headers=self._endpoint.headers,
            timeout=httpx2.Timeout(self._seconds, connect=CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
        ) as http:
            yield streamable_http_client(
                self._endpoint.url, http_client=http, max_sse_event_size=LARGEST_ANSWER
            )

    def _client(self, transport: AbstractAsyncContextManager[Any]) -> Client:
        return Client(
            transport,
            cache=None,
            mode=self._endpoint.mode,
            message_handler=self._hear,
            client_info=types.Implementation(name="switchyard", version="1"),
        )

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.tools_changed = True

    def _evidence(self) -> Evidence:
        return Evidence(
            name=self._endpoint.name,
            clean=self._endpoint.clean,
            seconds=self._seconds,
            status=self._http.status if self._http else 0,
            refusal=(self._http.refusal if self._http else "")
            or (self._pipes.complaint if self._pipes else ""),
        )


def list_tools(
    endpoint: Endpoint, *, seconds: float, most: int, stopped: threading.Event | None = None
) -> Listing:
    """Ask a server what it offers, page by page, up to a bound."""

    async def ask(client: Client) -> Listing:
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if not cursor or len(tools) > most:
                break
        told = client.server_info
        return Listing(
            tools=tools[:most],
            complete=not cursor and len(tools) <= most,
            protocol=client.protocol_version,
            server_info=f"{told.name} {told.version}" if told else "",
        )

    return Errand(endpoint, seconds, stopped or threading.Event()).run(ask)


def call_tool(
    endpoint: Endpoint,
    tool: str,
    arguments: dict[str, Any],
    *,
    seconds: float,
    stopped: threading.Event,
) -> Answer:
    """Call a tool once."""

    async def ask(client: Client) -> types.CallToolResult:
        # Not the client's own call: that would fetch the list of tools again and let a schema
        # of the server's choosing keep this process busy.
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        return await client.session.send_request(request, types.CallToolResult)

    errand = Errand(endpoint, seconds, stopped)
    result = errand.run(ask)
    return Answer(result=result, tools_changed=errand.tools_changed)
