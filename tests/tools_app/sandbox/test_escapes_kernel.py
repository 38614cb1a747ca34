"""Tests that neither kernel nor network offers either kind of sandbox a way out."""

from __future__ import annotations

import platform
import socket
from uuid import UUID

import pytest

from tests.tools_app.sandbox.conftest import python, reconfigured, run
from tools_app.sandbox.container.claims import session_dir
from tools_app.sandbox.network import Network
from tools_app.sandbox.seccomp import ARCHITECTURES, REFUSED

NETWORKS = [
    Network(),
    Network(posture="allowlist", hosts=("example.com",)),
    Network(posture="full"),
]
POSTURES = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.posture)


def test_system_calls_that_bypass_limits_are_refused(sandbox, files, kind):
    column = ARCHITECTURES[platform.machine()][1]
    # The setup of a local sandbox needs one call. The engine's library may be too old to know two
    # others, which tell a container no more than its list of mounts does.
    apart = {"chroot"} if kind == "local" else {"statmount", "listmount"}
    numbers = [numbers[column] for name, numbers in REFUSED.items() if name not in apart]

    output = python(sandbox, files, f"print({{call(number, 0, 0, 0, 0) for number in {numbers}}})")

    assert output == "{(-1, 'ENOSYS')}\n"


def test_calls_that_the_setup_needs_are_of_no_use_to_a_command(local, files):
    unshare, chroot = ({"x86_64": (272, 161), "aarch64": (97, 51)})[platform.machine()]

    output = python(
        local,
        files,
        f"print(call({unshare}, 0x20000), call({unshare}, 0x10020000), call({chroot}, b'/tmp'))",
    )

    assert output == "(-1, 'EPERM') (-1, 'ENOSYS') (-1, 'EPERM')\n"


def test_clone_cannot_create_namespaces(sandbox, files):
    clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    for flag in (0x10000000, 0x10000000 | 0x40000000, 0x40000000, 0x00020000, 0x20000000):
        # 17 is SIGCHLD: a child that was created would print a line.
        output = python(
            sandbox,
            files,
            f"made = call({clone}, {flag | 17}, 0, 0, 0, 0)\n"
            "if made[0] == 0: print('a child', flush=True); os._exit(0)\nprint(made)",
        )
        assert "a child" not in output
        assert "(-1, " in output


def test_input_cannot_be_injected_into_terminals(sandbox, files):
    output = python(
        sandbox,
        files,
        "import fcntl, pty, termios\nouter, inner = pty.openpty()\n"
        "for number in (termios.TIOCSTI, termios.TIOCLINUX):\n"
        "    try: fcntl.ioctl(inner, number, b'x'); print('typed')\n"
        "    except OSError as error: print(errno.errorcode[error.errno])",
    )

    assert output == "ENOSYS\nENOSYS\n"


def test_only_harmless_socket_families_are_available(sandbox, files):
    """Vsock would reach the hypervisor in spite of the network namespace."""
    output = python(
        sandbox,
        files,
        "made = []\n"
        "for family in range(46):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, 5):\n"
        "        try: socket.socket(family, kind); made.append(int(family)); break\n"
        "        except OSError: pass\n"
        "print(made)",
    )

    assert set(eval(output)) <= {1, 2, 10, 16}  # noqa: S307
    assert {1, 2} <= set(eval(output))  # noqa: S307


@POSTURES
def test_the_hosts_network_cannot_be_reached(sandbox, network):
    """Tries loopback, every address of this machine, the metadata address and public ones."""
    server = socket.create_server(("0.0.0.0", 0))  # noqa: S104
    port = server.getsockname()[1]
    own = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    targets = [f"{address}/{port}" for address in {"127.0.0.1", *own}]
    targets += ["169.254.169.254/80", "1.1.1.1/53", "192.168.0.1/80", "10.0.0.1/80"]
    output = run(
        reconfigured(sandbox, network=network),
        f"for a in {' '.join(targets)}; do"
        '  timeout 3 bash -c "echo > /dev/tcp/$a" 2>/dev/null && echo reached $a; done; '
        "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route",
    )
    server.close()

    assert output.split() == ["lo"]


@POSTURES
def test_sockets_of_the_host_cannot_be_reached(sandbox, data_dir, files, network):
    """Abstract sockets belong to the network namespace; other sockets need a path."""
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0switchyard-{data_dir.name}")
    abstract.listen()
    # PostgreSQL's socket, here as in an installation and below as in a distribution.
    (data_dir / "run").mkdir()
    database = socket.socket(socket.AF_UNIX)
    database.bind(str(data_dir / "run" / ".s.PGSQL.5432"))
    database.listen()
    places = [
        f"\0switchyard-{data_dir.name}",
        str(data_dir / "run" / ".s.PGSQL.5432"),
        "/var/run/postgresql/.s.PGSQL.5432",
        "/run/podman/podman.sock",
        "/var/run/docker.sock",
        str(session_dir(UUID(int=0)).parent.parent / "engine.sock"),
    ]

    output = python(
        reconfigured(sandbox, network=network),
        files,
        f"for place in {places!r}:\n"
        "    try: socket.socket(socket.AF_UNIX).connect(place); print('reached', place)\n"
        "    except OSError as error: pass",
    )
    abstract.close()
    database.close()

    assert output == ""
