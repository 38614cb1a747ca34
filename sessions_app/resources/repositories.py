"""Clones one revision of a repository for a session, with the system's git.

No hook runs, no submodule is fetched, git never asks for a password, and only https and the folders
in REPO_ROOTS are read. The host is resolved and checked first. git is given that host in punycode
and is pinned to the checked addresses, so neither a second DNS answer nor another way of reading an
international name can redirect it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import httpcore2
from django.conf import settings

from core.exceptions import EgressRefused, Invalid
from core.http import ascii_host, check_host
from core.logging import redact_text
from sessions_app.resources.prepare import (
    MAX_BYTES,
    MAX_FILES,
    Job,
    Prepared,
    chown_to_sandbox_user,
    write_new_file,
)
from tools_app.exceptions import ResourceFailed
from tools_app.files import sandbox_gid, sandbox_uid
from tools_app.storage import measure

CHECK_SECONDS = 0.25
#: Bytes of git's output that are read.
OUTPUT_BYTES = 8_000
#: Characters of git's reason that are stored and shown.
REASON_LENGTH = 1_000
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
    "submodule.recurse": "false",
}
#: The machine's own configuration of git is ignored.
GIT_ENVIRONMENT = {
    "GIT_ASKPASS": "/bin/false",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "PATH": GIT_PATH,
}


def clone_repository(job: Job) -> Prepared:
    """Clone the newest commit of the branch or tag that the source names."""
    address, _, revision = job.resource.source_ref.partition("#")
    environment = dict(GIT_ENVIRONMENT)
    if address.startswith("/"):
        path = _check_root(address)
        address, config = f"file://{path}", {"protocol.file.allow": "always"}
        environment["GIT_CONFIG_GLOBAL"] = str(_trust(path, job))
    else:
        address, config = _remote_source(address)
    environment |= _as_variables({**GIT_CONFIG, **config})
    into = job.into / "repository"
    into.mkdir(mode=0o755)
    chown_to_sandbox_user(into)
    command = clone_command(address, revision, into)
    code, output = run_bounded(command, environment, folder=into, job=job)
    if code:
        raise ResourceFailed(f"git could not clone the repository: {_reason(output)}")
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


def _trust(path: Path, job: Job) -> Path:
    """Write a configuration in which git reads exactly this repository, even of another user.

    It has to be a file: git starts a second process for the source, which inherits no variables.
    """
    file = job.into / "gitconfig"
    folders = [
        str(folder).replace("\\", "\\\\").replace('"', '\\"') for folder in (path, path / ".git")
    ]
    lines = ["[safe]", *(f'directory = "{folder}"' for folder in folders)]
    write_new_file(file, "\n".join(lines).encode())
    return file


def _remote_source(address: str) -> tuple[str, dict[str, str]]:
    """Check the host, and return the address with that host and the configuration that pins it."""
    parts = urlsplit(address)
    port = parts.port or 443
    try:
        host = ascii_host(parts.hostname or "")
        addresses = check_host(host, port, purpose="repositories")
    except (EgressRefused, Invalid) as fault:
        raise ResourceFailed(fault.detail) from fault
    except httpcore2.ConnectError as error:
        raise ResourceFailed(f"The host {host} cannot be found.") from error
    joined = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
    config = {"protocol.https.allow": "always"}
    if not _is_literal(host):  # a literal is not looked up again
        config["http.curloptResolve"] = f"{host}:{port}:{joined}"
    place = f"[{host}]" if ":" in host else host
    checked = parts._replace(netloc=f"{place}:{parts.port}" if parts.port else place)
    return checked.geturl(), config


def _is_literal(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


def _as_variables(config: dict[str, str]) -> dict[str, str]:
    """Return a configuration of git as environment variables."""
    variables = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (name, value) in enumerate(config.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _reason(output: str) -> str:
    """Return what git reported, in one line. The end is kept if it is too long."""
    text = " ".join(redact_text(output).split())
    if len(text) > REASON_LENGTH:
        text = f"…{text[-REASON_LENGTH:]}"
    return text or "it gave no reason."


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
            reserve_size(folder, job)
            continue
        reserve_size(folder, job)
        return code


def reserve_size(folder: Path, job: Job) -> None:
    """Reserve what the folder has grown by. Raise if it is larger than a resource may be."""
    used = measure(folder)
    if used.bytes > MAX_BYTES or used.files > MAX_FILES:
        raise ResourceFailed(
            f"It is larger than {MAX_BYTES // 1024 // 1024:,} MB or {MAX_FILES:,} files."
        )
    grown = used - job.reservation.held
    job.reservation.take(max(0, grown.bytes), files=max(0, grown.files))
