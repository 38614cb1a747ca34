"""Measures how soon a model's tokens reach many viewers of running sessions.

A worker's model streams 100 tokens a second. Every token is the time at which it was made, and raw
sockets in this process note when it arrives. Two scenarios: all viewers of one session, and the same
number spread over many sessions. The floor is Daphne alone, which broadcasts frames of the same size
to the same number of clients in the same run.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation

TOKEN = re.compile(rb"@(\d{10}\.\d{6}) ")
UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Upgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
#: Tokens of the first moments are left out: viewers learn of the answer, statements are planned.
WARM_UP_SECONDS = 1.0
#: A masked text frame that says "start", with a mask of zeros.
START = b"\x81\x85\x00\x00\x00\x00start"
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def web(application: str, port: int) -> Iterator[int]:
    """Run Daphne during the block and yield its process id."""
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0"]
    command.append(application)
    with subprocess.Popen(command, cwd=installation.ROOT) as process:  # noqa: S603
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None
                    time.sleep(0.1)
            yield process.pid
        finally:
            process.kill()


def connect(port: int, paths: Sequence[str], headers: str = "") -> list[socket.socket]:
    """Open a WebSocket for each path and return once all of them are accepted."""
    clients = []
    for path in paths:
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(UPGRADE.format(path=path, headers=headers).encode())
        clients.append(client)
        if len(clients) % 20 == 0:
            _await_acceptance(clients[-20:])
    _await_acceptance(clients[len(clients) // 20 * 20 :])
    return clients


def _await_acceptance(clients: Sequence[socket.socket]) -> None:
    for client in clients:
        received = b""
        while b"\r\n\r\n" not in received:
            received += client.recv(4096)
        assert received.startswith(b"HTTP/1.1 101"), received
        client.setblocking(False)


Arrivals = dict[int, list[tuple[float, bytes]]]


def receive(clients: Sequence[socket.socket], seconds: float) -> Arrivals:
    """Note when bytes arrive at each client. They are parsed only after the measurement."""
    by_number = {client.fileno(): client for client in clients}
    arrivals: Arrivals = {number: [] for number in by_number}
    poll = select.epoll()
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    end = time.time() + seconds
    while (left := end - time.time()) > 0:
        for number, _ in poll.poll(left):
            data = by_number[number].recv(1 << 18)
            assert data, "the server closed a socket"
            arrivals[number].append((time.time(), data))
    poll.close()
    return arrivals


def live_frames(chunks: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Yield the frames with new text of one client, and when the end of each arrived."""
    rest = b""
    for moment, data in chunks:
        rest += data
        while len(rest) >= 10:
            start, size = 2, rest[1]
            if size == 126:
                start, size = 4, int.from_bytes(rest[2:4])
            elif size == 127:
                start, size = 10, int.from_bytes(rest[2:10])
            if len(rest) < start + size:
                break
            frame, rest = rest[start : start + size], rest[start + size :]
            if frame.startswith(b'{"type":"assistant"') and frame.endswith(b'"seq":null}'):
                yield moment, frame


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def report(name: str, arrivals: Arrivals, cpu: float, own: float, *, expected: int) -> None:
    frames = [frame for chunks in arrivals.values() for frame in live_frames(chunks)]
    made = [(moment, float(at)) for moment, frame in frames for at in TOKEN.findall(frame)]
    began = min(at for _, at in made)
    delays = [(moment - at) * 1000 for moment, at in made if at > began + WARM_UP_SECONDS]
    per_frame = cpu / len(frames) * 1e6
    print(
        f"{name:28s} {installation.spread(delays)}   {len(delays) / expected:6.1%} of tokens in {len(frames):6,d} frames"
        f"   server {cpu:5.2f} s ({per_frame:3.0f} µs a frame)   this process {own:4.2f} s",
        flush=True,
    )


def measure_sessions(name: str, port: int, pid: int, sessions: list, viewers: int, seconds: int):
    from tenants.keys import issue_key

    key = issue_key(workspace_id=sessions[0].workspace_id, name="Bench").secret
    paths = [f"/ws/sessions/{sessions[n % len(sessions)].pk}/" for n in range(viewers)]
    clients = connect(port, paths, f"x-api-key: {key}\r\n")
    time.sleep(1)
    before, own = cpu_seconds(pid), time.process_time()
    for session in sessions:
        installation.send(session)
    arrivals = receive(clients, seconds + 2)
    tokens = (seconds - WARM_UP_SECONDS) * 100 * viewers
    used, own = cpu_seconds(pid) - before, time.process_time() - own
    report(name, arrivals, used, own, expected=int(tokens))
    for client in clients:
        client.close()


def measure_floor(port: int, viewers: int, seconds: int) -> None:
    with web("bench.streaming:application", port) as pid:
        clients = connect(port, ["/"] * viewers)
        before, own = cpu_seconds(pid), time.process_time()
        clients[0].send(START)
        arrivals = receive(clients, seconds + 2)
        tokens = (seconds - WARM_UP_SECONDS) * 100 * viewers
        used, own = cpu_seconds(pid) - before, time.process_time() - own
        report("floor: Daphne broadcasts", arrivals, used, own, expected=int(tokens))
        for client in clients:
            client.close()


def main() -> None:
    options = installation.parse_options(
        __doc__, viewers=500, sessions=50, seconds=8, port=8911, rounds=1
    )
    os.environ["MODEL_SECONDS"] = str(options.seconds)
    with (
        installation.running(),
        installation.workers(model_seconds=options.seconds, module="bench.streaming"),
        web("config.asgi:application", options.port) as pid,
    ):
        one = installation.make_sessions(1)
        many = installation.make_sessions(options.sessions)
        for _ in range(options.rounds):
            measure_floor(options.port + 1, options.viewers, options.seconds)
            for name, sessions in (("1 session", one), (f"{options.sessions} sessions", many)):
                label = f"{options.viewers} viewers of {name}"
                measure_sessions(
                    label, options.port, pid, sessions, options.viewers, options.seconds
                )


if __name__ == "__main__":
    main()
