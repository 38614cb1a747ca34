"""A terminal host on a thread of the test, with real shells, and a client of its sockets."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from config.asgi import application
from orchestrator.exceptions import TerminalsAway
from orchestrator.models import Terminal
from orchestrator.terminals import client, terminals
from orchestrator.terminals.host import TerminalHost
from sessions_app.models import Session
from tenants.access import Principal, principal_of_user
from tenants.models import User, Workspace
from tests.sessions_app.live.stream_client import key_for, new_session
from tests.tools_app.sandbox.conftest import skip_or_fail
from tools_app.exceptions import SandboxUnavailable
from tools_app.sandbox import host as machine

SECONDS = 40


@pytest.fixture
def hosted(transactional_db: None) -> Iterator[TerminalHost]:
    """Serve a host from a thread until the test ends."""
    try:
        machine.find_bwrap()
    except SandboxUnavailable as fault:
        skip_or_fail(fault.detail)
    host, started = TerminalHost(), threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        running.append((asyncio.get_running_loop(), stop))
        started.set()
        await host.serve(stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    started.wait(SECONDS)
    loop, stop = running[0]
    until(lambda: reachable())
    yield host
    loop.call_soon_threadsafe(stop.set)
    thread.join(SECONDS)
    assert not thread.is_alive()


def reachable() -> bool:
    try:
        client.ask(do="look")
    except TerminalsAway:
        return False
    return True


def until(look: Callable[[], Any]) -> None:
    pause = threading.Event()
    for _ in range(SECONDS * 50):
        if look():
            return
        pause.wait(0.02)
    raise AssertionError("It never came true.")


@pytest.fixture
def session(transactional_db: None, workspace: Workspace) -> Session:
    return new_session(workspace)


@pytest.fixture
def principal(owner: User, workspace: Workspace) -> Principal:
    return principal_of_user(owner, workspace.pk)


@pytest.fixture
def terminal(hosted: TerminalHost, session: Session, principal: Principal) -> Terminal:
    return terminals.open_terminal(principal, session, columns=91, rows=31)


def now(terminal: Terminal) -> Terminal:
    return Terminal.objects.get(pk=terminal.pk)


def is_closed(terminal: Terminal) -> bool:
    return now(terminal).status == Terminal.Status.CLOSED


class Watcher:
    """Reads and writes the socket of one terminal."""

    def __init__(self, socket: WebsocketCommunicator) -> None:
        self.socket = socket
        self.seen = b""
        self.said: list[dict[str, Any]] = []
        self.code: int | None = None

    async def take(self) -> None:
        frame = await self.socket.receive_output(timeout=SECONDS)
        if frame["type"] == "websocket.close":
            self.code = frame["code"]
        elif frame.get("bytes") is not None:
            self.seen += frame["bytes"]
        else:
            self.said.append(json.loads(frame["text"]))

    async def sees(self, wanted: bytes) -> bytes:
        while wanted not in self.seen:
            await self.take()
            assert self.code is None, (self.code, self.seen, self.said)
        return self.seen

    async def hears(self, type: str) -> dict[str, Any]:
        while not (found := [one for one in self.said if one["type"] == type]):
            await self.take()
            assert self.code is None or found, (self.code, self.said)
        return found[-1]

    async def ends(self) -> int:
        while self.code is None:
            await self.take()
        return self.code

    async def types(self, text: str) -> None:
        await self.socket.send_to(bytes_data=text.encode())

    async def tells(self, **words: Any) -> None:
        await self.socket.send_to(text_data=json.dumps(words))


@asynccontextmanager
async def watch(
    terminal_id: Any,
    workspace: Workspace,
    scope: str = "run",
    token: str = "",
    *,
    by: User | None = None,
) -> Any:
    """Watch as the workspace's first member, or as another one."""
    secret = await sync_to_async(key_for)(workspace, scope, by)
    query = f"?token={token}" if token else ""
    socket = WebsocketCommunicator(
        application,
        f"/ws/terminals/{terminal_id}/{query}",
        headers=[(b"x-api-key", secret.encode()), (b"host", b"testserver")],
    )
    accepted, _ = await socket.connect(timeout=SECONDS)
    assert accepted
    try:
        yield Watcher(socket)
    finally:
        await socket.disconnect(timeout=SECONDS)
