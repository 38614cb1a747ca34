"""Tests that settings which cannot be enforced on this machine are refused with advice."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from annotated_types import Ge

from agents.limits import SandboxLimits
from agents.models import Environment
from core.ids import uuid7
from tests.tools_app.sandbox.conftest import TIMEOUT_SECONDS
from tools_app.exceptions import SandboxUnavailable
from tools_app.files import SessionFolder
from tools_app.sandbox import cgroup, host, seccomp
from tools_app.sandbox import local as local_sandbox
from tools_app.sandbox.base import Limits
from tools_app.sandbox.container import engine as engine_module
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.local import LocalSandbox
from tools_app.sandbox.network import Network
from tools_app.sandbox.provisioning import provision

pytestmark = pytest.mark.usefixtures("local")


def test_an_environment_determines_kind_limits_and_network(folder):
    environment = Environment(name="tight", network="full", limits={"pids": 7, "other": 1})
    some = Environment(network="allowlist", allowed_hosts=["example.com"], kind="container")
    limits = Limits(pids=7)
    full = Network(posture="full")
    listed = Network(posture="allowlist", hosts=("example.com",))

    assert provision(environment, folder) == LocalSandbox(
        folder=folder, limits=limits, network=full
    )
    assert provision(some, folder) == ContainerSandbox(
        folder=folder, limits=Limits(), network=listed, image="switchyard/base"
    )


def test_the_lowest_accepted_limits_can_be_enforced(local):
    lowest = {
        name: next(bound.ge for bound in field.metadata if isinstance(bound, Ge))
        for name, field in SandboxLimits.model_fields.items()
    }
    few = {name: lowest[name] for name in ("memory_mb", "pids")}

    wanted = LocalSandbox(folder=local.folder, limits=Limits.model_validate(lowest))
    assert provision(Environment(limits=lowest), local.folder) == wanted
    result = provision(Environment(limits=few), local.folder).execute(
        "echo hi", seconds=TIMEOUT_SECONDS
    )
    assert (result.exit_code, result.output) == (0, "hi\n")


def test_missing_limits_have_the_documented_defaults(folder):
    defaults = Limits.model_validate(SandboxLimits().model_dump())

    assert provision(Environment(), folder) == LocalSandbox(folder=folder, limits=defaults)


def test_an_environment_can_name_an_image(folder, engine):
    made = provision(Environment(kind="container", image="example.com/none:1"), folder)

    with pytest.raises(
        SandboxUnavailable, match=r"image example.com/none:1 is not on this machine"
    ):
        made.execute("true", seconds=TIMEOUT_SECONDS)


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        (Environment(network="some"), "no network mode 'some'"),
        (Environment(name="odd", limits={"pids": 1}), "limits of the environment odd .* pids"),
    ],
)
def test_an_unenforceable_environment_is_refused(folder, environment, complaint):
    with pytest.raises(SandboxUnavailable, match=complaint):
        provision(environment, folder)


def test_a_missing_bubblewrap_is_reported_with_instructions(folder, monkeypatch):
    monkeypatch.setattr(host, "PLACES", "/nowhere")

    with pytest.raises(SandboxUnavailable, match="apt install bubblewrap"):
        provision(Environment(), folder)


def test_an_old_bubblewrap_is_refused(folder, monkeypatch):
    monkeypatch.setattr(host, "OLDEST_BWRAP", (99, 1))

    with pytest.raises(SandboxUnavailable, match=r"too old.* 99.1 or newer"):
        provision(Environment(), folder)


def test_an_old_kernel_is_refused(folder, monkeypatch):
    monkeypatch.setattr("platform.release", lambda: "5.4.0-generic")

    with pytest.raises(SandboxUnavailable, match=r"needs Linux 5.14 or newer"):
        provision(Environment(), folder)


@pytest.mark.parametrize(
    ("printed", "reported"),
    [
        ("bwrap: setting up uid map: Permission denied", "uid map.*On Ubuntu.*AppArmor"),
        ("bwrap: something else", "The sandbox cannot be started: bwrap: something else$"),
    ],
)
def test_an_error_of_bubblewrap_is_reported(local, data_dir, monkeypatch, printed, reported):
    failing_bwrap = data_dir / "bwrap"
    failing_bwrap.write_text(f"#!/bin/sh\necho '{printed}' >&2; exit 1\n")
    failing_bwrap.chmod(0o755)
    monkeypatch.setattr(host, "find_bwrap", lambda: str(failing_bwrap))

    with pytest.raises(SandboxUnavailable, match=reported):
        local.execute("true", seconds=TIMEOUT_SECONDS)


def test_an_unknown_processor_is_refused():
    for make in (seccomp.program, seccomp.profile):
        with pytest.raises(SandboxUnavailable, match="not riscv64"):
            make("riscv64")


def test_a_missing_engine_is_reported_with_instructions(folder, settings, monkeypatch, data_dir):
    monkeypatch.setattr(engine_module, "_usual", list)
    monkeypatch.setattr(engine_module, "PLACES", "/nowhere")
    made = provision(Environment(kind="container"), folder)

    with pytest.raises(SandboxUnavailable, match=r"make containers.*CONTAINER_SOCKET"):
        made.execute("true", seconds=TIMEOUT_SECONDS)

    settings.CONTAINER_SOCKET = f"unix://{data_dir}/none.sock"
    with pytest.raises(SandboxUnavailable, match=r"listens at CONTAINER_SOCKET"):
        made.execute("true", seconds=TIMEOUT_SECONDS)


def test_an_engine_that_does_not_start_is_reported_with_its_message(folder, monkeypatch, data_dir):
    podman = data_dir / "podman"
    podman.write_text("#!/bin/sh\necho this machine is too small >&2; exit 1\n")
    podman.chmod(0o755)
    monkeypatch.setattr(engine_module, "_usual", list)
    monkeypatch.setattr(engine_module, "PLACES", f"{data_dir}:/bin")

    with pytest.raises(SandboxUnavailable, match="did not start: this machine is too small"):
        provision(Environment(kind="container"), folder).execute("true", seconds=TIMEOUT_SECONDS)


def test_a_limit_that_the_engine_does_not_enforce_is_refused(container, monkeypatch):
    """The check reads the kernel's value instead of trusting the engine."""
    monkeypatch.setattr(cgroup, "pids_max", lambda limits: limits.pids)

    with pytest.raises(SandboxUnavailable, match="does not limit the number of processes"):
        container.execute("touch ran", seconds=TIMEOUT_SECONDS)
    assert not (container.folder.files / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives commands to another user")
def test_a_folder_that_the_sandbox_user_cannot_reach_is_reported(sandbox, data_dir):
    data_dir.chmod(0o700)

    with pytest.raises(SandboxUnavailable, match=f"chmod o\\+x {data_dir}"):
        sandbox.execute("true", seconds=TIMEOUT_SECONDS)


def test_a_limit_that_cannot_be_set_is_refused(local, monkeypatch):
    lower_before = f"ulimit -t 5; {local_sandbox.SET_LIMITS}"
    monkeypatch.setattr(local_sandbox, "SET_LIMITS", lower_before)

    with pytest.raises(SandboxUnavailable, match="cannot set this limit here: cpu time"):
        local.execute("echo must not run > ran", seconds=TIMEOUT_SECONDS)
    assert not (local.folder.files / "ran").exists()


def test_an_installation_below_the_hosts_programs_is_hidden(monkeypatch, settings):
    with tempfile.TemporaryDirectory(prefix="switchyard-", dir="/var/tmp") as programs:
        Path(programs).chmod(0o755)
        monkeypatch.setattr(local_sandbox, "PROGRAMS", ("/usr", programs))
        data, code = Path(programs) / "app" / "var", Path(programs) / "app" / "src"
        for folder in (data, code):
            folder.mkdir(parents=True)
            (folder / "secret_key").write_text("the key")
        Path(programs, "tool").write_text("a program")
        settings.DATA_DIR = data
        monkeypatch.setattr(local_sandbox, "ROOT", code)
        place = SessionFolder(workspace_id=uuid7(), session_id=uuid7())
        sandbox = LocalSandbox(folder=place, limits=Limits())

        seen = sandbox.execute(
            f"cat {programs}/tool {programs}/app/*/*; ls", seconds=TIMEOUT_SECONDS
        )
        written = sandbox.execute(f"touch {data}/x {code}/x mine", seconds=TIMEOUT_SECONDS)

        assert "a program" in seen.output
        assert "the key" not in seen.output
        assert written.output.count("Read-only file system") == 2
        assert (place.files / "mine").exists()
