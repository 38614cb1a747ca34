"""Speaks to one MCP server: a connection per request, on an event loop of the caller's thread.

Requests share nothing, so a server that hangs or floods holds up no other. Import this module only
when it is needed: the library takes a second to load.
"""

from __future__ import annotations

import os
import shlex
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._context_streams import create_context_streams
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from core.exceptions import Fault
from core.http import AsyncGuardedTransport
from tenants.vault import fill, mask
from tools_app.exceptions import McpFailed, OutcomeUnknown, ToolStopped
from tools_app.files import WORKSPACE_PATH, SessionFolder, sandbox_gid, sandbox_uid
from tools_app.mcp.tools import no_mask, one_line
from tools_app.models import McpServer
from tools_app.registry import LOOK_UP_SECONDS
from tools_app.sandbox.base import ExecResult, Sandbox

LONGEST_LINE = 8_000_000
CHUNK = 65_536
SAID = 2_000
TICK_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True)
class ServerSandbox:
    """The sandbox in which a server's command runs."""

    folder: SessionFolder
    sandbox: Sandbox


class StdioTransport:
    """A command with a pipe to its standard input and one from its output."""

    def __init__(self, command: str, place: ServerSandbox | None, seconds: float) -> None:
        if place is None:
            raise McpFailed("A server over stdio runs only in a sandbox.")
        self._command, self._place, self._seconds = command, place, seconds
        self._mark = f".mcp-{token_hex(8)}"
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._said = ""
        self._fault: Fault | None = None
        self._result: ExecResult | None = None

    @property
    def complaint(self) -> str:
        """The reason why the command ended by itself or could not start."""
        if self._fault:
            return self._fault.detail
        if self._result is None or self._result.ended_by == "stop":
            return ""
        ending = f"Its command ended ({self._result.ended_by}, exit {self._result.exit_code})."
        return f"{ending} Its output: {self._said.strip()[-500:]}" if self._said.strip() else ending

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        """Yield the streams that the client library speaks over."""
        files = self._place.folder.make()
        home = os.open(files, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        ends: list[int] = []
        try:
            ends += [_pipe(home, f"{self._mark}.{name}") for name in ("in", "out")]
            threading.Thread(target=self._execute, name=self._mark, daemon=True).start()
            async with self._streams(*ends) as streams:
                yield streams
        finally:
            self._stop.set()
            for end in ends:
                os.close(end)
            for name in ("in", "out"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._mark}.{name}", dir_fd=home)
            os.close(home)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._ended.wait, 5)

    @asynccontextmanager
    async def _streams(self, to: int, back: int) -> AsyncIterator[Any]:
        into, inbox = create_context_streams[SessionMessage | Exception](0)
        outbox, out_of = create_context_streams[SessionMessage](0)
        async with into, inbox, outbox, out_of, anyio.create_task_group() as group:
            group.start_soon(self._read, back, into)
            group.start_soon(self._write, to, out_of)
            try:
                yield inbox, outbox
            finally:
                group.cancel_scope.cancel()

    def _execute(self) -> None:
        ends = f"<{WORKSPACE_PATH}/{self._mark}.in >{WORKSPACE_PATH}/{self._mark}.out"
        try:
            self._result = self._place.sandbox.execute(
                f"exec bash -c {shlex.quote(self._command)} {ends}",
                seconds=self._seconds,
                on_output=self._on_message,
                stopped=self._stop,
            )
        except Fault as fault:
            self._fault = fault
        finally:
            self._ended.set()

    def _on_message(self, text: str) -> None:
        self._said = (self._said + text)[-SAID:]

    async def _read(self, back: int, into: Any) -> None:
        """Pass on the JSON messages of the command, and skip other lines, which many servers write."""
        kept = b""
        while True:
            data = await self._data(back)
            *lines, kept = (kept + data).split(b"\n")
            if len(kept) > LONGEST_LINE:
                raise McpFailed(f"It sent a line of more than {LONGEST_LINE:,} bytes.")
            for line in lines:
                with suppress(ValidationError):
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await into.send(SessionMessage(message))

    async def _data(self, back: int) -> bytes:
        # Both ends of the pipe are open here, so only the end of the command shows that it is over.
        while True:
            try:
                return os.read(back, CHUNK)
            except BlockingIOError:
                if self._ended.is_set():
                    raise McpFailed(self.complaint or "Its command ended.") from None
                await anyio.sleep(TICK_SECONDS)

    async def _write(self, to: int, out_of: Any) -> None:
        async for sent in out_of:
            told = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            left = memoryview(told.encode() + b"\n")
            while left:
                try:
                    left = left[os.write(to, left) :]
                except BlockingIOError:
                    await anyio.sleep(TICK_SECONDS)


def _pipe(home: int, name: str) -> int:
    """Create a named pipe for the sandbox's user, and make sure that it is one."""
    os.mkfifo(name, 0o600, dir_fd=home)
    if os.geteuid() == 0:
        os.chown(name, sandbox_uid(), sandbox_gid(), dir_fd=home, follow_symlinks=False)
    end = os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=home)
    if not stat.S_ISFIFO(os.fstat(end).st_mode):
        os.close(end)
        raise McpFailed("The pipe to the command was tampered with.")
    return end


T = TypeVar("T")
CONNECT_SECONDS = 10.0
LARGEST_ANSWER = 8_000_000
MOST_PAGES = 20


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """How a server is reached, with secrets filled in. Made for one request and thrown away."""

    name: str
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    command: str = ""
    #: The sandbox in which a command runs.
    place: ServerSandbox | None = None
    #: Masks the secrets in what comes back.
    clean: Callable[[str], str] = no_mask
    #: The version negotiated last; saves a round trip.
    protocol: str = ""

    @property
    def mode(self) -> str:
        if not self.protocol:
            return "auto"
        return self.protocol if self.protocol in MODERN_PROTOCOL_VERSIONS else "legacy"


def endpoint_of(server: McpServer, place: ServerSandbox | None = None) -> Endpoint:
    """Return the endpoint for one request. It reads the vault: release the connection after it."""
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


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The tools that a server offers, as it describes them."""

    tools: list[types.Tool]
    complete: bool
    protocol: str
    server_info: str


@dataclass(frozen=True, kw_only=True)
class ServerAnswer:
    """The result of a call, and whether the server announced meanwhile that its tools changed."""

    result: types.CallToolResult
    tools_changed: bool


class Connection:
    """One connection, and what is known about its failure."""

    def __init__(self, endpoint: Endpoint, seconds: float, stopped: threading.Event) -> None:
        self._endpoint, self._seconds, self._stopped = endpoint, seconds, stopped
        self._http: AsyncGuardedTransport | None = None
        self._pipes: StdioTransport | None = None
        #: Whether the request itself may have been sent, and not only the handshake.
        self._begun = False
        self.tools_changed = False

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Connect and do the work. Raise a fault that says what went wrong."""
        done: list[T] = []
        try:
            anyio.run(self._run, work, done)
        except Exception as error:  # noqa: BLE001 - every kind of error becomes a fault
            if done:
                return done[0]  # Only closing the connection failed.
            fault = to_fault(error, self._diagnostics())
            if self._begun and may_have_been_sent(error):
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
            self._pipes = StdioTransport(
                self._endpoint.command, self._endpoint.place, self._seconds
            )
            yield self._pipes.open()
            return
        self._http = AsyncGuardedTransport("mcp", largest=LARGEST_ANSWER)
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
            message_handler=self._on_message,
            client_info=types.Implementation(name="switchyard", version="1"),
        )

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.tools_changed = True

    def _diagnostics(self) -> Diagnostics:
        return Diagnostics(
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
    """Ask a server for its tools, page by page, up to a limit."""

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

    return Connection(endpoint, seconds, stopped or threading.Event()).run(ask)


def call_tool(
    endpoint: Endpoint,
    tool: str,
    arguments: dict[str, Any],
    *,
    seconds: float,
    stopped: threading.Event,
) -> ServerAnswer:
    """Call a tool once."""

    async def ask(client: Client) -> types.CallToolResult:
        # Not the client's own method: it would fetch the list of tools again and validate the
        # result with a schema of the server's choosing, which may take for ever.
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=tool, arguments=arguments)
        )
        return await client.session.send_request(request, types.CallToolResult)

    errand = Connection(endpoint, seconds, stopped)
    result = errand.run(ask)
    return ServerAnswer(result=result, tools_changed=errand.tools_changed)


#: The client library's code for a connection that closed before the answer came.
CONNECTION_CLOSED = -32000
#: The client library's code for an answer that it could not parse.
UNREADABLE = -32700
NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """What is known about a connection that failed."""

    name: str
    seconds: float
    status: int = 0
    refusal: str = ""
    #: Masks secrets. It runs before the text is cut: half a secret would not be recognised.
    clean: Callable[[str], str] = no_mask

    def quote(self, text: str) -> str:
        return one_line(self.clean(text))


def flatten_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside groups of errors."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from flatten_errors(part)
    else:
        yield error


def may_have_been_sent(error: BaseException) -> bool:
    """Return whether the server may have received the request, so that its effect is unknown."""
    found = list(flatten_errors(error))
    return not any(isinstance(one, NEVER_SENT) for one in found) and any(
        isinstance(one, TimeoutError | httpx2.TransportError)
        or (isinstance(one, MCPError) and one.code == CONNECTION_CLOSED)
        for one in found
    )


def to_fault(error: BaseException, seen: Diagnostics) -> Fault:
    """Return a fault that says what went wrong and what to check."""
    faults = [one for one in flatten_errors(error) if isinstance(one, Fault)]
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
            f"{seen.name} redirects to another address. Use that address.", state="refused"
        )
    return _by_kind(next(iter(flatten_errors(error))), seen)


def _by_kind(error: BaseException, seen: Diagnostics) -> Fault:
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
            return McpFailed(f"{seen.name} sent an answer that is not valid MCP.")
        case MCPError():
            return McpFailed(
                f"{seen.name} refuses: {seen.quote(error.message)} (code {error.code})"
            )
        case ValidationError():
            return McpFailed(f"{seen.name} sent an answer that is not valid MCP.")
        case _:
            return McpFailed(
                f"{seen.name} failed: {seen.quote(str(error)) or type(error).__name__}"
            )
