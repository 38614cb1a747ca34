"""Nothing gets out of a sandbox, and nothing of the host gets in."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from config.faults import ToolFailed
from tenants.ids import uuid7
from tests.tools_app.conftest import needs_bwrap
from tools_app.folder import SessionFolder
from tools_app.sandbox.seccomp import ARCHITECTURES, REFUSED

pytestmark = needs_bwrap
PROGRAMS = {"bin", "lib", "lib32", "lib64", "libx32", "sbin"}
SECRET = "the secret of somebody else"


def run(sandbox, command: str) -> str:
    result = sandbox.execute(command, seconds=60)
    assert result.ended_by == "itself"
    return result.output


def test_the_hosts_files_are_not_there(sandbox):
    seen = set(run(sandbox, "ls -A /").split())
    assert seen <= {*PROGRAMS, "dev", "etc", "proc", "tmp", "usr", "workspace"}
    assert "root:x:0:0::/:/bin/false" in run(sandbox, "cat /etc/passwd")
    for path in ("/etc/shadow", "/root", "/home", "/var", "/sys", "/run", str(Path.cwd())):
        assert "No such file" in run(sandbox, f"ls -d {path}")


def test_the_hosts_files_are_not_behind_proc_either(sandbox):
    output = run(
        sandbox,
        "for p in /proc/[0-9]*; do ls $p/root/root $p/root/home $p/cwd/../var; done;"
        "cat /proc/*/root/etc/shadow",
    )

    assert "root:" not in output
    assert output.count("No such file") >= 4


def test_other_processes_of_the_host_are_not_visible(sandbox):
    pids = run(sandbox, "ls /proc | grep -c '^[0-9]'")

    assert int(pids) < 8
    assert "No such process" in run(sandbox, f"kill -0 {os.getpid()}")


def test_no_environment_and_no_open_file_of_the_host_comes_in(sandbox, monkeypatch, folder):
    monkeypatch.setenv("SWITCHYARD_SECRET", SECRET)

    output = run(sandbox, "env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/*/cmdline")
    assert "SECRET=" not in output
    assert SECRET not in output
    assert str(folder.session_id) not in output
    assert run(sandbox, "ls /proc/self/fd").split() == ["0", "1", "2", "3"]  # 3 is what ls lists
    for fd in run(sandbox, "for fd in /proc/1/fd/*; do readlink $fd; done").splitlines():
        assert fd == "/dev/null" or fd.startswith(("pipe:", "anon_inode:"))


def test_other_sessions_are_not_there(sandbox, folder):
    other = SessionFolder(workspace_id=folder.workspace_id, session_id=uuid7())
    (other.make() / "secret.txt").write_text(SECRET)
    inside = sandbox.folder.make()
    (inside / "link").symlink_to(other.files)

    output = run(
        sandbox, f"cat link/secret.txt; ls .. ../..; cat {other.files}/secret.txt; ls -la /"
    )

    assert SECRET not in output
    assert str(other.session_id) not in run(sandbox, "ls -R /tmp /workspace/..  2>/dev/null | head")


def test_only_the_workspace_and_scratch_can_be_written(sandbox):
    output = run(
        sandbox,
        "for d in / /etc /usr /usr/bin /dev /proc /workspace /tmp /dev/shm; do"
        "  touch $d/probe 2>/dev/null && echo $d; done; true",
    )

    assert output.split() == ["/workspace", "/tmp", "/dev/shm"]  # noqa: S108


def test_kernel_settings_cannot_be_written(sandbox):
    output = run(
        sandbox,
        "for f in $(find /proc/sys /proc/sysrq-trigger -type f 2>/dev/null); do"
        "  { : >> $f; } 2>/dev/null && echo $f; done; true",
    )

    assert output == ""


def test_there_is_no_network(sandbox):
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    output = run(
        sandbox,
        f"for a in 127.0.0.1/{port} 169.254.169.254/80 1.1.1.1/53; do"
        '  timeout 5 bash -c "echo > /dev/tcp/$a" 2>/dev/null && echo reached $a; done; '
        "cat /proc/net/dev | tail -n +3 | cut -d: -f1",
    )
    server.close()

    assert output.split() == ["lo"]


def test_sockets_of_the_host_cannot_be_reached(sandbox, data_dir, files):
    """Abstract ones belong to the network namespace, others need a path."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("python3 is not installed under /usr: apt install python3")
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0switchyard-escape")
    server.listen()
    (files / "try.py").write_text(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0switchyard-escape')\n"
    )

    output = run(sandbox, "/usr/bin/python3 try.py")
    server.close()

    assert "ConnectionRefusedError" in output


def test_the_full_network_is_the_hosts(sandbox):
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(30)
    heard: list[bytes] = []

    def hear() -> None:
        connection, _ = server.accept()
        with connection:
            heard.append(connection.recv(5))

    listener = Thread(target=hear)
    listener.start()
    port = server.getsockname()[1]
    run(replace(sandbox, share_network=True), f"echo hello > /dev/tcp/127.0.0.1/{port}")
    listener.join()
    server.close()

    assert heard == [b"hello"]


def test_a_machine_out_of_memory_ends_sandboxes_first(sandbox):
    assert run(sandbox, "cat /proc/self/oom_score_adj") == "1000\n"


def test_the_command_has_no_rights_and_gets_none(sandbox):
    status = dict(
        line.split(":\t", 1)
        for line in run(sandbox, "cat /proc/self/status").splitlines()
        if ":\t" in line
    )

    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert "1000" in status["Uid"].split()


@pytest.mark.parametrize(
    "attempt",
    [
        "unshare --user true",
        "unshare --user --map-root-user --mount true",
        "mount -t tmpfs none /tmp",
        "mount --bind /workspace /usr",
        "umount /workspace",
        "chroot / true",
        "mknod disk b 8 0",
        "nsenter --target 1 --mount true",
        "ln /usr/bin/env second-name",
        "hostname other",
        "renice -n -5 $$",
        "ulimit -u 100000",
        "ulimit -d unlimited",
    ],
)
def test_ways_out_are_closed(sandbox, attempt):
    assert run(sandbox, f"{attempt} 2>/dev/null && echo it worked; true") == ""


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs python3 under /usr")
@pytest.mark.parametrize("call", ["memfd_create", "shmget", "msgget", "keyctl", "ptrace"])
def test_calls_that_lead_around_the_limits_do_not_exist(sandbox, files, call):
    number = REFUSED[call][ARCHITECTURES[platform.machine()][1]]
    (files / "try.py").write_text(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"print(libc.syscall({number}, 0, 0, 0, 0), ctypes.get_errno())\n"
    )

    assert run(sandbox, "/usr/bin/python3 try.py") == "-1 38\n"


def test_a_link_made_inside_leads_nowhere_outside(sandbox, call, data_dir):
    """A command plants a link; the tools outside do not follow it."""
    (data_dir / "secret.txt").write_text(SECRET)
    run(sandbox, f"ln -s {data_dir}/secret.txt link; ln -s / root; mkfifo pipe")

    for path in ("link", "root/etc/passwd", "pipe"):
        with pytest.raises(ToolFailed, match=r"is a link|not an ordinary file"):
            call("read", path=path)
