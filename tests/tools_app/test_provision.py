"""What cannot be enforced on this machine is refused, with what to do about it."""

from __future__ import annotations

import os

import pytest

from agents.models import Environment
from config.faults import SandboxUnavailable
from tests.tools_app.conftest import needs_bwrap
from tools_app.sandbox import Limits, confinement, host, provision, seccomp
from tools_app.sandbox.local import LocalSandbox

pytestmark = needs_bwrap
PATIENCE = 60


def test_an_environment_decides_on_limits_and_network(folder):
    environment = Environment(name="tight", network="full", limits={"pids": 7, "other": 1})

    made = provision(environment, folder)

    assert made == LocalSandbox(folder=folder, limits=Limits(pids=7), share_network=True)
    assert provision(None, folder) == LocalSandbox(folder=folder, limits=Limits())


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        (Environment(kind="container"), "runs no container sandboxes"),
        (Environment(network="allowlist"), "list of allowed hosts"),
        (Environment(name="odd", limits={"pids": 1}), "limits of the environment odd .* pids"),
    ],
)
def test_what_cannot_be_enforced_is_refused(folder, environment, complaint):
    with pytest.raises(SandboxUnavailable, match=complaint):
        provision(environment, folder)


def test_a_missing_bubblewrap_is_told_with_how_to_install_it(folder, monkeypatch):
    monkeypatch.setattr(host, "PLACES", "/nowhere")

    with pytest.raises(SandboxUnavailable, match="apt install bubblewrap"):
        provision(None, folder)


def test_an_old_bubblewrap_is_refused(folder, monkeypatch):
    monkeypatch.setattr(host, "OLDEST_BWRAP", (99, 1))

    with pytest.raises(SandboxUnavailable, match=r"too old.* 99.1 or newer"):
        provision(None, folder)


def test_an_old_kernel_is_refused(folder, monkeypatch):
    monkeypatch.setattr("platform.release", lambda: "5.4.0-generic")

    with pytest.raises(SandboxUnavailable, match=r"needs Linux 5.14 or newer"):
        provision(None, folder)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("bwrap: setting up uid map: Permission denied", "uid map.*On Ubuntu.*AppArmor"),
        ("bwrap: something else", "The sandbox cannot be started: bwrap: something else$"),
    ],
)
def test_what_bubblewrap_complains_of_is_told(sandbox, data_dir, monkeypatch, said, told):
    complaining = data_dir / "bwrap"
    complaining.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    complaining.chmod(0o755)
    monkeypatch.setattr(host, "find_bwrap", lambda: str(complaining))

    with pytest.raises(SandboxUnavailable, match=told):
        sandbox.execute("true", seconds=PATIENCE)


def test_an_unknown_processor_is_refused():
    with pytest.raises(SandboxUnavailable, match="not riscv64"):
        seccomp.program("riscv64")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives commands to another user")
def test_a_folder_that_the_commands_user_cannot_reach_is_told(sandbox, data_dir):
    data_dir.chmod(0o700)

    with pytest.raises(SandboxUnavailable, match=f"chmod o\\+x {data_dir}"):
        sandbox.execute("true", seconds=PATIENCE)


def test_a_limit_that_cannot_be_set_is_refused(sandbox, monkeypatch):
    lower_before = f"ulimit -t 5; {confinement.SET_LIMITS}"
    monkeypatch.setattr(confinement, "SET_LIMITS", lower_before)

    with pytest.raises(SandboxUnavailable, match="cannot limit this here: cpu time"):
        sandbox.execute("echo must not run > ran", seconds=PATIENCE)
    assert not (sandbox.folder.files / "ran").exists()
