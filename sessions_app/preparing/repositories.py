"""Clones a repository for a session: one revision, by the system's git, told to trust nothing.

No hook runs, no submodule is fetched, nobody is asked for a password, and only https and folders
that the operator named are read. The host is resolved and checked first, and git is pinned to the
checked addresses, so that a second answer of the name server cannot lead elsewhere.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpcore2
from django.conf import settings

from config.faults import EgressRefused, ResourceFailed
from config.redaction import redact_text
from sessions_app.preparing.bounded import run_bounded
from sessions_app.preparing.job import Job, Prepared, give_away
from tenants.egress import check_host

PLACES = "/usr/local/bin:/usr/bin:/bin"
#: `http.curloptResolve`, without which the checked address could not be held.
OLDEST_GIT = (2, 37)
CONFIGURATION = {
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


def clone(job: Job) -> Prepared:
    """The newest state of the branch or tag that the source names."""
    address, _, revision = job.resource.source_ref.partition("#")
    if address.startswith("/"):
        address, settings_ = f"file://{_allowed(address)}", {"protocol.file.allow": "always"}
    else:
        settings_ = {"protocol.https.allow": "always", "http.curloptResolve": _pinned(address)}
    into = job.into / "repository"
    into.mkdir(mode=0o755)
    give_away(into)
    command = clone_command(address, revision, into)
    code, said = run_bounded(command, _environment(settings_), folder=into, job=job)
    if code:
        raise ResourceFailed(f"git could not clone it: {_told(said)}")
    return Prepared(source=into)


def clone_command(address: str, revision: str, into: Path) -> list[str]:
    branch = ["--branch", revision] if revision else []
    options = ["--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--quiet"]
    return [_git(), "clone", *options, *branch, "--", address, str(into)]


def _environment(more: dict[str, str]) -> dict[str, str]:
    """All configuration comes from here, none from the machine or its users."""
    environment = {
        "GIT_ASKPASS": "/bin/false",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "PATH": PLACES,
    }
    pairs = {**CONFIGURATION, **more}
    environment["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (name, value) in enumerate(pairs.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = name
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment


def _pinned(address: str) -> str:
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 443
    try:
        addresses = check_host(host, port)
    except EgressRefused as fault:
        raise ResourceFailed(fault.detail) from fault
    except httpcore2.ConnectError as error:
        raise ResourceFailed(f"{host} cannot be found.") from error
    found = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
    return f"{host}:{port}:{found}"


def _allowed(path: str) -> Path:
    """A folder of this machine, if the operator lets repositories be taken from there."""
    real = Path(path).resolve()
    roots = [Path(root).resolve() for root in settings.REPO_ROOTS]
    if not any(real.is_relative_to(root) for root in roots):
        raise ResourceFailed(
            "Repositories of this machine are taken only from the folders that the operator "
            "names in REPO_ROOTS."
        )
    return real


def _git() -> str:
    path = shutil.which("git", path=PLACES)
    if path is None:
        raise ResourceFailed("git is not installed on this machine. Install the package `git`.")
    told = subprocess.run(  # noqa: S603
        [path, "--version"], capture_output=True, text=True, env={}, timeout=10, check=False
    ).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GIT:
        raise ResourceFailed("The machine's git is too old. Install git 2.37 or newer.")
    return path


def _told(said: str) -> str:
    """The last line of what git said, which says most."""
    lines = [line.strip() for line in redact_text(said).splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it did not say why."
