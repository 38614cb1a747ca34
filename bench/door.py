"""Measures `POST runtime/` beside a bare Django view on the same server, and a turn through REST.

Both servers take turns in short rounds, each alone with PostgreSQL and the clients; no worker runs
then. The CPU time is that of the web process. A turn through REST is the message, then waiting for
its run; it is compared with the same run's time from accepting the message to the committed answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation

PATH = "/api/v1/runtime/"
#: The longest that a request to wait for a run may take, in seconds.
WAIT = 30
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class WebProcess:
    """A running web server."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / TICKS


@contextmanager
def web(application: str) -> Iterator[WebProcess]:
    """Run one web process as `manage.py up` does, during the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0"]
    # The limit of requests per key would end the measurement.
    env = os.environ | {"REQUESTS_PER_MINUTE": "6000000"}
    process = subprocess.Popen(  # noqa: S603 (this interpreter, this folder)
        [*command, "--no-server-name", application], cwd=installation.ROOT, env=env
    )
    try:
        while not _accepts(port):
            if process.poll() is not None:
                raise RuntimeError(f"{application} did not start")
            time.sleep(0.1)
        yield WebProcess(port=port, pid=process.pid)
    finally:
        process.terminate()
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Client:
    """A connection that sends one request after another."""

    def __init__(self, port: int, headers: str) -> None:
        self._port = port
        self._headers = headers

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{self._headers}{headers}"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        status, length = int(answered[9:12]), _length(answered)
        if length is None:
            content = await self._read_chunks()
        else:
            content = await self._reader.readexactly(length)
        if status >= 400:
            raise RuntimeError(f"{status}: {content.decode()}")
        return content

    async def _read_chunks(self) -> bytes:
        content = b""
        while size := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
            content += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
        return content

    def close(self) -> None:
        self._writer.close()


def _length(head: bytes) -> int | None:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return None


@dataclass(kw_only=True)
class Load:
    """What the clients send: messages to this many sessions, in turn."""

    agent: str
    secret: str
    sessions: int
    idempotent: bool = False
    numbers: Iterator[int] = field(default_factory=count)

    async def send(self, client: Client) -> None:
        number = next(self.numbers)
        body = {"agent": self.agent, "session_key": f"bench {number % self.sessions}"}
        key = f"Idempotency-Key: bench-{self.sessions}-{number}\r\n" if self.idempotent else ""
        encoded = json.dumps({**body, "message": f"message {number}"}).encode()
        await client.request("POST", PATH, encoded, key)


async def _round(
    server: WebProcess, load: Load, clients: int, requests: int
) -> tuple[float, float]:
    """Return the requests per second, and the CPU milliseconds of one."""
    connected = [Client(server.port, f"x-api-key: {load.secret}\r\n") for _ in range(clients)]
    for client in connected:
        await client.connect()

    async def work(client: Client) -> None:
        for _ in range(requests // clients):
            await load.send(client)

    began, cpu = time.perf_counter(), server.cpu_seconds()
    await asyncio.gather(*map(work, connected))
    elapsed, used = time.perf_counter() - began, server.cpu_seconds() - cpu
    for client in connected:
        client.close()
    done = requests // clients * clients
    return done / elapsed, used / done * 1000


def compare(
    servers: dict[str, tuple[WebProcess, Load]], *, clients: int, requests: int, rounds: int
) -> None:
    """Print the rates of all servers, measured in alternation, and their ratios to the first."""
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for server, load in servers.values():
        asyncio.run(_round(server, load, clients, clients * 4))
    for _ in range(rounds):
        for name, (server, load) in servers.items():
            measured[name].append(asyncio.run(_round(server, load, clients, requests)))
    floor = statistics.median(rate for rate, _ in next(iter(measured.values())))
    for name, figures in measured.items():
        rate, cpu = (statistics.median(column) for column in zip(*figures, strict=True))
        print(
            f"{name:34s} {clients} clients {rate:6.0f}/s   {cpu:5.2f} ms CPU   {rate / floor:4.2f} of bare"
        )


async def _turns(server: WebProcess, load: Load, turns: int) -> list[tuple[str, float]]:
    """Return the run of each turn, and its milliseconds from the request to the answer."""
    client = Client(server.port, f"x-api-key: {load.secret}\r\n")
    await client.connect()
    measured = []
    for number in range(turns):
        body = {"agent": load.agent, "session_key": f"turn {number % load.sessions}"}
        began = time.perf_counter()
        sent = await client.request("POST", PATH, json.dumps({**body, "message": "hello"}).encode())
        run_id = json.loads(sent)["run_id"]
        run = json.loads(await client.request("GET", f"/api/v1/runs/{run_id}/?wait={WAIT}"))
        assert run["status"] == "completed", run
        measured.append((run_id, installation.milliseconds_since(began)))
    client.close()
    return measured


def measure_turns(server: WebProcess, load: Load, turns: int) -> None:
    from sessions_app.models import Run

    asyncio.run(_turns(server, load, load.sessions * 2))
    measured = asyncio.run(_turns(server, load, turns))
    runs = Run.objects.in_bulk([run_id for run_id, _ in measured])
    own = [(r.finished_at - r.created_at).total_seconds() * 1000 for r in runs.values()]
    through = [millis for _, millis in measured]
    ratio = statistics.median(through) / statistics.median(own)
    print(f"turn, accepted → committed answer   {installation.spread(own)}")
    print(
        f"turn through REST, with its answer  {installation.spread(through)}   {ratio:4.2f} times the turn"
    )


def make_load(sessions: int) -> tuple[str, str]:
    """Create sessions with ten messages each, and return their agent and a key."""
    from sessions_app.models import Session
    from tenants.keys import issue_key

    made = installation.make_sessions(sessions, events=10)
    for number, session in enumerate(made):
        Session.objects.filter(pk=session.pk).update(session_key=f"turn {number}", title="Bench")
    return str(made[0].agent_id), issue_key(workspace_id=made[0].workspace_id, name="Bench").secret


def main() -> None:
    options = installation.parse_options(
        __doc__, clients=32, requests=640, rounds=3, sessions=64, turns=100
    )
    with installation.running():
        agent, secret = make_load(20)
        load = Load(agent=agent, secret=secret, sessions=options.sessions)
        keyed = Load(agent=agent, secret=secret, sessions=options.sessions, idempotent=True)
        with web("bench.bare_view:application") as bare, web("config.asgi:application") as ours:
            servers = {
                "bare Django view": (bare, load),
                "POST runtime/": (ours, load),
                "POST runtime/ with Idempotency-Key": (ours, keyed),
            }
            compare(
                servers, clients=options.clients, requests=options.requests, rounds=options.rounds
            )
        turns = Load(agent=agent, secret=secret, sessions=20)
        with installation.workers(model_seconds=0), web("config.asgi:application") as ours:
            measure_turns(ours, turns, options.turns)


if __name__ == "__main__":
    main()
