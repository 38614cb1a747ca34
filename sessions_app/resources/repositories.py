"""Clones one revision of a repository for a session, with the system's git.

No hook runs, no submodule is fetched, git never asks for a password, and only https and the folders
in REPO_ROOTS are read. The host is resolved and checked first, and git is pinned to the checked
addresses, so a second DNS answer cannot redirect it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpcore2
from django.conf import settings

from core.exceptions import EgressRefused
from core.http import check_host
from core.logging import redact_text
from sessions_app.resources.prepare import (
    MAX_BYTES,
    MAX_FILES,
    Job,
    Prepared,
    chown_to_sandbox_user,
)
from tools_app.exceptions import ResourceFailed
from tools_app.files import sandbox_gid, sandbox_uid

CHECK_SECONDS = 0.25
#: Bytes of git's output that are read.
OUTPUT_BYTES = 8_000
GIT_PATH = "/usr/local/bin:/usr/bin:/bin"
#: The first version with `http.curloptResolve`, which pins the checked addresses.
MIN_GIT_VERSION = (2, 37)
GIT_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.protectNTFS": "true",
    "credential.helper": "",
    "fetch.fsckObjects": "true",
    "http.followRedirects": "false",
    "http.proxy": "",
    "protocol.allow": "never",
    "safe.directory": "*",
    "submodule.recurse": "false",
}


def clone_repository(job: Job) -> Prepared:
    """Clone the newest commit of the branch or tag that the source names."""
    address, _, revision = job.resource.source_ref.partition("#")
    if address.startswith("/"):
        address, config = f"file://{_check_root(address)}", {"protocol.file.allow": "always"}
    else:
        config = {"protocol.https.allow": "always", "http.curloptResolve": _pinned(address)}
    into = job.into / "repository"
    into.mkdir(mode=0o755)
    chown_to_sandbox_user(into)
    command = clone_command(address, revision, into)
    code, output = run_bounded(command, _environment(config), folder=into, job=job)
    if code:
        raise ResourceFailed(f"git could not clone the repository: {_last_line(output)}")
    return Prepared(source=into)


def clone_command(address: str, revision: str, into: Path) -> list[str]:
    branch = ["--branch", revision] if revision else []
    options = ["--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--quiet"]
    return [_find_git(), "clone", *options, *branch, "--", address, str(into)]


def _find_git() -> str:
    path = shutil.which("git", path=GIT_PATH)
    if path is None:
        raise ResourceFailed("git is not installed on this machine. Install the package `git`.")
    output = subprocess.run(  # noqa: S603
        [path, "--version"], capture_output=True, text=True, env={}, timeout=10, check=False
    ).stdout
    version = re.search(r"(\d+)\.(\d+)", output)
    if not version or (int(version[1]), int(version[2])) < MIN_GIT_VERSION:
        raise ResourceFailed("The machine's git is too old. Install git 2.37 or newer.")
    return path


def _check_root(path: str) -> Path:
    """Return the real path of a local repository, or raise if it is outside REPO_ROOTS."""
    real = Path(path).resolve()
    roots = [Path(root).resolve() for root in settings.REPO_ROOTS]
    if not any(real.is_relative_to(root) for root in roots):
        raise ResourceFailed(
            "Local repositories must be in a folder that the operator listed in REPO_ROOTS."
        )
    return real


def _pinned(address: str) -> str:
    """Resolve and check the host, and return the value of `http.curloptResolve`."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 443
    try:
        addresses = check_host(host, port)
    except EgressRefused as fault:
        raise ResourceFailed(fault.detail) from fault
    except httpcore2.ConnectError as error:
        raise ResourceFailed(f"The host {host} cannot be found.") from error
    joined = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
    return f"{host}:{port}:{joined}"


def _environment(config: dict[str, str]) -> dict[str, str]:
    """Return an environment that holds git's whole configuration. The machine's own is ignored."""
    environment = {
        "GIT_ASKPASS": "/bin/false",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "PATH": GIT_PATH,
    }
    pairs = {**GIT_CONFIG, **config}
    environment["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (name, value) in enumerate(pairs.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = name
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment


def _last_line(output: str) -> str:
    """Return the last line of git's output, which names the cause."""
    lines = [line.strip() for line in redact_text(output).splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it gave no reason."


def run_bounded(
    command: list[str], environment: dict[str, str], *, folder: Path, job: Job
) -> tuple[int, str]:
    """Run a command and return its exit code and the end of its output.

    A command that exceeds the job's time or size is killed with its children.
    """
    is_root = os.geteuid() == 0  # The sandbox user, who owns the folder, runs the command.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=sandbox_uid() if is_root else None,
            group=sandbox_gid() if is_root else None,
            extra_groups=[] if is_root else None,
        )
        try:
            code = _wait(process, folder, job)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(max(0, output.seek(0, 2) - OUTPUT_BYTES))
        return code, output.read().decode("utf-8", "replace")


def _wait(process: subprocess.Popen[bytes], folder: Path, job: Job) -> int:
    while True:
        try:
            code = process.wait(CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            job.check()
            check_size(folder)
            continue
        check_size(folder)
        return code


def check_size(folder: Path) -> None:
    """Raise if the folder is larger than a resource may be."""
    size = files = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(directory, name)).st_size
            files += 1
        if size > MAX_BYTES or files > MAX_FILES:
            raise ResourceFailed(
                f"It is larger than {MAX_BYTES // 1024 // 1024:,} MB or {MAX_FILES:,} files."
            )
