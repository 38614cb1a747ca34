"""Tests that memory which belongs to no process counts towards the limit of either kind of sandbox."""

from __future__ import annotations

import pytest

from tests.tools_app.sandbox.conftest import TIMEOUT_SECONDS, limited
from tools_app.sandbox import cgroup, local
from tools_app.sandbox.base import Limits

#: Each tries to hold 600 MiB in the kernel, and says how much it holds.
PREFIX = """
import fcntl, mmap, os, socket, sys, time
held, kept, piece = 0, [], b"x" * 65536
def tell():
    print(held >> 20, flush=True)
def hold(send, sockets):
    global held
    kept.append(sockets)
    try:
        while True:
            held += send(piece)
    except OSError:
        pass
"""
UNIX = """
while held < 600 << 20:
    try: ours, theirs = socket.socketpair()
    except OSError: break
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    hold(ours.send, (ours, theirs))
    tell()
"""
FORKED_UNIX = """
for _ in range(12):
    if not os.fork():
        break
while held < 60 << 20:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    hold(ours.send, (ours, theirs))
tell()
time.sleep(5)
"""
IN_FLIGHT = """
while held < 600 << 20:
    try: ours, theirs = socket.socketpair()
    except OSError: break
    ours.setblocking(False)
    hold(ours.send, ())
    try:
        carrier = socket.socketpair()
        socket.send_fds(carrier[0], [b"."], [ours.fileno(), theirs.fileno()])
    except OSError: break
    kept.append(carrier)
    tell()
"""
TCP = """
server = socket.create_server(("127.0.0.1", 0))
while held < 600 << 20:
    ours = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
    ours.setblocking(False)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    hold(ours.send, (ours, theirs))
    tell()
"""
PIPES = """
while held < 600 << 20:
    read, write = os.pipe()
    os.set_blocking(write, False)
    try: fcntl.fcntl(write, 1031, 1 << 20)
    except OSError: pass
    hold(lambda data: os.write(write, data), (read, write))
    tell()
"""
MAPPED = """
for number in range(12):
    file = open(f"/dev/shm/{number}", "w+b") if number % 2 else open(f"/tmp/{number}", "w+b")
    try:
        while True: held += file.write(piece); file.flush()
    except OSError: pass
    kept.append(file)
    tell()
"""
ATTACKS = {
    "unix": UNIX,
    "forked unix": FORKED_UNIX,
    "in flight": IN_FLIGHT,
    "tcp": TCP,
    "pipes": PIPES,
    "scratch": MAPPED,
}
MEMORY_MB = 64


def held_mb(sandbox, files, attack: str) -> int:
    """Return how much an attack could hold at the same time."""
    (files / "attack.py").write_text(PREFIX + ATTACKS[attack])
    result = limited(sandbox, memory_mb=MEMORY_MB).execute(
        "python3 attack.py 2>/dev/null", seconds=TIMEOUT_SECONDS
    )
    told = [int(line) for line in result.output.splitlines() if line.isdigit()]
    return sum(told) if attack == "forked unix" else max(told, default=0)


@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_in_the_kernel_counts_towards_the_limit(sandbox, files, attack):
    assert held_mb(sandbox, files, attack) <= MEMORY_MB


def test_an_attack_on_the_memory_ends_with_a_clear_reason(sandbox, files):
    (files / "attack.py").write_text(PREFIX + UNIX)

    result = limited(sandbox, memory_mb=MEMORY_MB).execute(
        "python3 attack.py", seconds=TIMEOUT_SECONDS
    )

    assert (result.exit_code, result.ended_by) == (None, "memory")


def test_the_page_cache_is_counted_and_does_not_end_a_command(local, files):
    result = limited(local, memory_mb=MEMORY_MB).execute(
        "head -c 200000000 /dev/zero > big; cat big | wc -c", seconds=TIMEOUT_SECONDS
    )

    assert (result.exit_code, result.output) == (0, "200000000\n")


@pytest.mark.parametrize("attack", ["unix", "forked unix", "in flight", "tcp"])
def test_socket_buffers_are_measured_where_no_control_group_can_be_made(
    local, files, attack, monkeypatch
):
    monkeypatch.setattr(cgroup, "_parent_group", lambda: None)
    (files / "attack.py").write_text(PREFIX + ATTACKS[attack] + "\ntime.sleep(60)")

    result = limited(local, memory_mb=MEMORY_MB).execute(
        "python3 attack.py", seconds=TIMEOUT_SECONDS
    )

    assert result.ended_by == "memory"


def test_a_command_leaves_no_control_group_behind(local):
    found = cgroup._parent_group()
    if found is None:
        pytest.skip("no control groups can be made here")
    before = set(found[0].iterdir())

    local.execute("true", seconds=TIMEOUT_SECONDS)

    made = {path for path in found[0].iterdir() if path.name.startswith(cgroup.PREFIX)}
    assert made <= before


def test_the_report_says_where_memory_is_only_measured(monkeypatch):
    from tools_app.sandbox.provisioning import enforcement

    assert local.can_hide_mounts() in {True, False}
    monkeypatch.setattr(cgroup, "_parent_group", lambda: None)

    assert "measured" in enforcement()[0]
    with cgroup.command_group(Limits()) as group:
        assert group is None
