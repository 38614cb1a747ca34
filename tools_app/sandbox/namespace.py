"""Listens inside the network namespace of a sandbox, from outside.

A sandbox has a network namespace of its own with nothing in it but loopback. A small process
enters it, opens a listener there and hands it back; so whoever holds the listener serves the
sandbox, and no program inside is needed. When the holder dies, nothing listens any more.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from config.faults import SandboxUnavailable

PATIENCE_SECONDS = 20
MESSAGE_LENGTH = 300
#: An ordinary user has rights over the namespace only inside the user namespace that owns it.
ENTER = """
import ctypes, fcntl, os, socket, sys
first, port, handed = map(int, sys.argv[1:])
NEW_NET, NEW_USER, GET_OWNER = 0x40000000, 0x10000000, 0xB701
libc = ctypes.CDLL(None, use_errno=True)
def enter(fd, kind):
    if libc.setns(fd, kind):
        raise SystemExit(os.strerror(ctypes.get_errno()))
net = os.open(f"/proc/{first}/ns/net", os.O_RDONLY)
if os.path.samestat(os.fstat(net), os.stat("/proc/self/ns/net")):
    raise SystemExit("the sandbox shares the network of this machine")
if os.geteuid():
    enter(fcntl.ioctl(net, GET_OWNER), NEW_USER)
enter(net, NEW_NET)
listener = socket.create_server(("127.0.0.1", port), backlog=128)
socket.send_fds(socket.socket(fileno=handed), [b"."], [listener.fileno()])
"""


def listen_inside(first_pid: int, port: int) -> socket.socket:
    """A listener on the loopback of the namespace that this process is in.

    The caller holds on to the process, so that its number cannot come to mean another.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_SECONDS)
        told = subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-I", "-S", "-c", ENTER),
                *(str(first_pid), str(port), str(theirs.fileno())),
            ],
            pass_fds=(theirs.fileno(),),
            capture_output=True,
            text=True,
            env={},
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if told.returncode:
            why = told.stderr.strip().rpartition("\n")[2][:MESSAGE_LENGTH]
            raise SandboxUnavailable(
                f"The sandbox's network cannot be opened: {why}. Run Switchyard as root or as the "
                "user whose engine runs the containers, or choose the network none."
            )
        _, (fd, *_), _, _ = socket.recv_fds(ours, 1, 1)
    return _listener(fd)


def _listener(fd: int) -> socket.socket:
    os.set_inheritable(fd, False)
    return socket.socket(fileno=fd)
