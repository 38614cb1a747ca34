"""Tests that neither kind of sandbox can be escaped from or shows anything of the host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.ids import uuid7
from tests.tools_app.sandbox.conftest import (
    alive,
    limited,
    python,
    reconfigured,
    run,
    sleep_command,
)
from tools_app.exceptions import ToolFailed
from tools_app.files import SessionFolder

SECRET = "the secret of somebody else"
#: Each of them would escape from the sandbox or bypass a limit.
ATTEMPTS = [
    "unshare --user true",
    "unshare --user --map-root-user --mount true",
    "unshare --net true",
    "mount -t tmpfs none /tmp",
    "mount --bind /workspace /usr",
    "umount /workspace",
    "mount -o remount,rw /",
    "chroot / true",
    "mknod disk b 8 0",
    "mknod mem c 1 1",
    "nsenter --target 1 --mount true",
    "nsenter --target $$ --user --preserve-credentials true",
    "ln /usr/bin/env second-name",
    "ln /etc/passwd third-name",
    "hostname other",
    "renice -n -5 $$",
    "ulimit -c unlimited",
    "ulimit -n 100000",
    "ulimit -d unlimited",
    "ulimit -f unlimited",
    "echo b > /proc/sysrq-trigger",
    "head -c 1 /proc/kcore | grep -q .",
    "head -c 1 /dev/mem",
    "head -c 1 /dev/vda",
    "head -c 1 /dev/sda",
    "head -c 1 /dev/kmsg",
    "cat /proc/1/mem",
    "echo 1 > /proc/sys/kernel/core_pattern",
    "mkdir /sys/fs/cgroup/pids/mine",
    "mkdir /sys/fs/cgroup/mine",
    "chown 0 /workspace",
    "setpriv --reuid 0 true",
]


def test_the_hosts_files_are_not_visible(sandbox, kind):
    if kind == "local":
        programs = {"bin", "lib", "lib32", "lib64", "libx32", "sbin"}
        seen = set(run(sandbox, "ls -A /").split())
        assert seen <= {*programs, "dev", "etc", "proc", "tmp", "usr", "workspace"}
    for path in ("/root/.ssh", "/home/*", "/var/lib/containers", str(Path.cwd()), "/run/podman"):
        assert "cannot access" in run(sandbox, f"ls -d {path}")
    assert SECRET not in run(sandbox, "cat /etc/shadow /etc/gshadow 2>/dev/null; true")
    hosts = Path("/etc/machine-id")
    if hosts.exists():
        assert hosts.read_text().strip() not in run(sandbox, "cat /etc/machine-id; true")


def test_the_hosts_files_are_not_reachable_through_proc(sandbox, data_dir):
    (data_dir / "secret.txt").write_text(SECRET)
    (data_dir / "secret.txt").chmod(0o644)

    output = run(
        sandbox,
        f"for p in /proc/[0-9]*; do cat $p/root{data_dir}/secret.txt"
        f" $p/cwd/../..{data_dir}/secret.txt $p/root/proc/1/root{data_dir}/secret.txt; done;"
        "for n in 0 1 2 3 4 5 6 7 8 9; do cat /proc/self/fd/$n/../secret.txt; done 2>&1",
    )

    assert SECRET not in output
    assert output.count("No such file") >= 3


def test_other_processes_of_the_host_are_not_visible(sandbox):
    pids = run(sandbox, "ls /proc | grep -c '^[0-9]'")

    assert int(pids) < 10
    assert "No such process" in run(sandbox, f"kill -0 {os.getpid()}")


def test_environment_variables_and_open_files_of_the_host_are_not_inherited(
    sandbox, monkeypatch, folder
):
    monkeypatch.setenv("SWITCHYARD_SECRET", SECRET)

    output = run(sandbox, "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
    assert "SECRET=" not in output
    assert SECRET not in output
    assert str(folder.session_id) not in output
    shown = run(sandbox, "for fd in /proc/self/fd/* /proc/1/fd/*; do readlink $fd; done; true")
    for fd in shown.splitlines():
        assert fd in {"/dev/null", "/proc/1/fd"} or fd.startswith(
            ("pipe:", "anon_inode:", "socket:", "/proc/")
        )


def test_other_sessions_are_not_visible(sandbox, folder):
    other = SessionFolder(workspace_id=folder.workspace_id, session_id=uuid7())
    (other.make() / "secret.txt").write_text(SECRET)
    inside = sandbox.folder.make()
    (inside / "link").symlink_to(other.files)
    (inside / "up").symlink_to(f"../../{other.session_id}/workspace")

    output = run(
        sandbox,
        f"cat link/secret.txt up/secret.txt {other.files}/secret.txt"
        f" /workspace/../{other.session_id}/workspace/secret.txt; ls .. ../..; ls -la /",
    )

    assert SECRET not in output
    assert str(other.session_id) not in run(sandbox, "ls -R /tmp /workspace/.. 2>/dev/null | head")


def test_two_sessions_cannot_signal_each_other(sandbox, folder):
    neighbour = reconfigured(
        sandbox, folder=SessionFolder(workspace_id=folder.workspace_id, session_id=uuid7())
    )
    try:
        run(neighbour, "true")
        assert "sleep 99" not in run(neighbour, "cat /proc/*/cmdline | tr '\\0' ' '")
    finally:
        neighbour.destroy()


def test_only_the_workspace_and_scratch_can_be_written(sandbox, kind):
    output = run(
        sandbox,
        "find / -xdev -type d 2>/dev/null | head -5000 > /tmp/all;"
        "printf '%s\\n' / /etc /usr /usr/bin /dev /proc /sys /run /var /root /workspace /tmp /var/tmp"
        " /dev/shm >> /tmp/all; while read d; do"
        "  { : > $d/probe; } 2>/dev/null && echo $d; done < /tmp/all; true",
    )

    scratch = {"/workspace", "/tmp", "/dev/shm"}  # noqa: S108
    # In a container these are in memory too, and count towards its limit.
    assert set(output.split()) <= scratch | {"/var/tmp", "/run", "/dev/mqueue"}  # noqa: S108
    assert set(output.split()) >= scratch


def test_kernel_settings_cannot_be_written(sandbox):
    output = run(
        sandbox,
        "for f in $(find /proc/sys /proc/sysrq-trigger /sys -type f 2>/dev/null | head -3000); do"
        "  { : >> $f; } 2>/dev/null && echo $f; done; true",
    )

    assert output == ""


def test_every_escape_attempt_fails(sandbox):
    lines = [f"({attempt}) >/dev/null 2>&1 </dev/null && echo '{attempt}'" for attempt in ATTEMPTS]

    assert run(sandbox, "\n".join([*lines, "true"])) == ""


def test_a_command_has_no_capabilities_and_cannot_gain_any(sandbox):
    status = dict(
        line.split(":\t", 1)
        for line in run(sandbox, "cat /proc/self/status").splitlines()
        if ":\t" in line
    )

    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert "0" not in status["Uid"].split()


def test_a_setuid_program_gains_no_privileges(sandbox):
    output = run(
        sandbox,
        "cp $(command -v id) mine && chmod 6755 mine && ./mine -u;"
        "for f in $(find / -xdev -perm -4000 -type f 2>/dev/null); do echo $f; done | head -3;"
        "su -c id root </dev/null 2>&1; passwd -S 2>&1; true",
    )

    assert output.splitlines()[0] != "0"
    assert "uid=0" not in output


def test_sandboxes_are_killed_first_when_the_machine_runs_out_of_memory(sandbox):
    assert run(sandbox, "cat /proc/self/oom_score_adj") == "1000\n"


def test_file_tools_do_not_follow_a_link_created_in_the_sandbox(sandbox, call, data_dir):
    (data_dir / "secret.txt").write_text(SECRET)
    run(sandbox, f"ln -s {data_dir}/secret.txt link; ln -s / root; mkfifo pipe")

    for path in ("link", "root/etc/passwd", "pipe"):
        with pytest.raises(ToolFailed, match=r"is a link|not a regular file"):
            call("read", path=path)


def test_orphans_do_not_outlive_a_time_out(sandbox, folder):
    marker = sleep_command()
    orphan = (
        "import os, sys\n"
        "for _ in range(2):\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
        f"os.execvp('sleep', {marker.split()!r})"
    )
    (sandbox.folder.make() / "orphan.py").write_text(orphan)

    result = sandbox.execute(
        f"trap '' TERM HUP INT; python3 orphan.py; nohup setsid {marker} & {marker}", seconds=2
    )

    assert result.ended_by == "time"
    assert alive(marker) == []
    # The next command does not see the orphans either.
    assert marker not in run(sandbox, "cat /proc/*/cmdline | tr '\\0' ' '")


def test_a_command_cannot_take_over_the_process_that_keeps_its_container(container, files):
    """That process outlives commands, so code written into it would run on."""
    output = python(
        container,
        files,
        "pids = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())\n"
        "for pid in pids[:2]:\n"
        "    for path in (f'/proc/{pid}/mem', f'/proc/{pid}/environ', f'/proc/{pid}/fd/0'):\n"
        "        try: open(path, 'r+b'); print('opened', path)\n"
        "        except OSError: pass\n"
        "    try: os.kill(pid, 9); print('killed', pid)\n"
        "    except OSError: pass\n"
        "print(len(pids) >= 3)",
    )

    assert output == "True\n"


def test_disk_use_is_limited_per_file_and_by_the_reserve(sandbox, files, settings):
    small = limited(sandbox, file_mb=1)

    run(small, "for n in 1 2 3; do head -c 3000000 /dev/zero > big$n; done 2>/dev/null; true")
    assert [(files / f"big{n}").stat().st_size for n in (1, 2, 3)] == [1024 * 1024] * 3

    def fill_disk(_: str) -> None:
        settings.DISK_RESERVE_MB = 10**12

    result = small.execute("echo ready; sleep 600", seconds=60, on_output=fill_disk)
    assert result.ended_by == "disk"


def test_the_paths_of_the_host_are_not_visible_in_lists_of_mounts(local, data_dir, folder):
    """A container engine shows the source of a bind mount to its containers, as all of them do."""
    names = ("mountinfo", "mounts", "mountstats")
    lists = " ".join(
        f"/proc/{process}/{name}"
        for process in ("self", "1", "$$", "thread-self", "1/task/1", "self/task/$$")
        for name in names
    )
    terminal = local.open_terminal(f"cat /proc/mounts {lists}; findmnt; df; echo end")
    shown = b""
    while b"end" not in shown and (piece := terminal.read(10)) is not None:
        shown += piece
    terminal.close()

    output = run(local, f"cat /proc/mounts {lists} 2>/dev/null; findmnt; df 2>&1; true")

    for secret in (str(folder.session_id), str(folder.workspace_id), data_dir.name):
        assert secret not in output
        assert secret.encode() not in shown


def test_a_command_cannot_raise_its_limits(sandbox, files):
    """The limits also hold for processes that the command starts."""
    output = python(
        limited(sandbox, pids=20, file_mb=1),
        files,
        "import resource\n"
        "for name in ('FSIZE', 'NOFILE', 'CORE', 'CPU', 'DATA'):\n"
        "    kind = getattr(resource, f'RLIMIT_{name}')\n"
        "    hard = resource.getrlimit(kind)[1]\n"
        "    assert hard != resource.RLIM_INFINITY, name\n"
        "    try: resource.setrlimit(kind, (hard + 1, hard + 1)); print('raised', name)\n"
        "    except (ValueError, OSError): pass",
    )

    assert output == ""
