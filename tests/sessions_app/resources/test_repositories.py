"""Tests of cloning: which repositories git reads, which host it reaches, and what it reports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from agents.mounts import Mount
from core.exceptions import InvalidFields
from core.validation import read_input
from sessions_app.resources import repositories
from sessions_app.resources.prepare import Job
from sessions_app.resources.repositories import clone_repository
from tools_app.exceptions import ResourceFailed
from tools_app.files import SessionFolder, sandbox_gid, sandbox_uid
from tools_app.storage import Reservation

PUBLIC = "93.184.215.14"


@pytest.fixture(autouse=True)
def reachable(tmp_path: Path) -> None:
    """Let the user that runs git reach the folder."""
    for parent in (tmp_path, *tmp_path.parents[:-1]):
        if os.geteuid() == 0:
            parent.chmod(parent.stat().st_mode | 0o011)


@pytest.fixture
def root(tmp_path: Path, settings) -> Path:
    """Return a folder of repositories that the operator allows."""
    found = tmp_path / "repositories"
    found.mkdir(mode=0o755)
    settings.REPO_ROOTS = [str(found)]
    return found


@pytest.fixture
def job(tmp_path: Path):
    """Return a function that makes the job of preparing a source."""

    def make(source: str) -> Job:
        into = tmp_path / uuid4().hex
        into.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(into, sandbox_uid(), sandbox_gid())
        return Job(
            resource=SimpleNamespace(source_ref=source),  # type: ignore[arg-type]
            folder=SessionFolder(workspace_id=uuid4(), session_id=uuid4()),
            agent_id=uuid4(),
            into=into,
            stopped=threading.Event(),
            deadline=time.monotonic() + 60,
            reservation=Reservation(account=None, writing=None),
        )

    return make


def make_repository(folder: Path) -> Path:
    folder.mkdir(mode=0o755, parents=True)
    git = [shutil.which("git") or "git", "-c", "user.name=T", "-c", "user.email=t@example.com"]
    (folder / "README.md").write_text("hello from git\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "One"]):
        subprocess.run([*git, *arguments], cwd=folder, check=True)
    return folder


@pytest.fixture
def foreign_owner(monkeypatch) -> None:
    """Let git take every repository for one of another user, as its own tests do."""
    variables = {**repositories.GIT_ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    monkeypatch.setattr(repositories, "GIT_ENVIRONMENT", variables)


@pytest.mark.usefixtures("foreign_owner")
@pytest.mark.parametrize("name", ["origin", 'with "quotes" and \\ more'])
def test_a_repository_of_another_user_is_cloned_if_the_operator_allows_its_folder(root, job, name):
    origin = make_repository(root / name)

    prepared = clone_repository(job(str(origin)))

    assert (prepared.source / "README.md").read_text() == "hello from git\n"


@pytest.mark.usefixtures("foreign_owner")
def test_a_bare_repository_of_another_user_is_cloned(root, job):
    origin = make_repository(root / "origin")
    bare = root / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", origin, bare], check=True)

    assert (clone_repository(job(str(bare))).source / "README.md").exists()


def test_git_trusts_the_named_repository_and_no_other(root, job):
    origin = make_repository(root / "origin")
    asked = job(str(origin))
    clone_repository(asked)

    trusted = (asked.into / "gitconfig").read_text()
    assert trusted.count("directory") == 2
    assert "*" not in trusted
    assert f'"{origin}"' in trusted
    assert "safe.directory" not in repositories.GIT_CONFIG


def test_the_whole_reason_of_git_is_reported_in_one_line(root, job):
    with pytest.raises(ResourceFailed) as caught:
        clone_repository(job(str(root / "missing")))

    assert "does not appear to be a git repository" in caught.value.detail
    assert "Could not read from remote repository" in caught.value.detail
    assert "\n" not in caught.value.detail


def test_a_long_reason_is_cut_at_its_beginning():
    reason = repositories._reason("first\n" + "x" * 5_000 + "\nlast")

    assert len(reason) == repositories.REASON_LENGTH + 1
    assert reason.endswith("last")


# ── The host that git reaches ────────────────────────────────────────────────────────────────────


def test_git_is_pinned_to_the_checked_address_of_an_international_name(job, settings, monkeypatch):
    """The name has no address, so git can only connect if the pinned name is the one it looks up."""
    looked_up = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr("core.http.resolve_host", resolve)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings.EGRESS_ALLOWED_PRIVATE = [f"repositories=xn--bcher-kva.invalid:{port}"]
        reached = threading.Event()

        def answer() -> None:
            connection, _ = server.accept()
            reached.set()
            connection.close()

        listening = threading.Thread(target=answer, daemon=True)
        listening.start()
        with pytest.raises(ResourceFailed):
            clone_repository(job(f"https://bücher.invalid:{port}/x.git"))
        assert reached.wait(5)

    assert looked_up == ["xn--bcher-kva.invalid"]


@pytest.mark.parametrize(
    ("address", "checked"),
    [
        ("https://bücher.example/x.git", "https://xn--bcher-kva.example/x.git"),
        ("https://\uff47\uff49\uff54\uff48\uff55\uff42.com/a/b", "https://github.com/a/b"),
        ("https://GitHub.com:8443/a/b", "https://github.com:8443/a/b"),
        ("https://example.com./a", "https://example.com/a"),
    ],
)
def test_git_is_given_the_host_that_was_checked(monkeypatch, address, checked):
    monkeypatch.setattr("core.http.resolve_host", lambda *_: [PUBLIC])

    given, config = repositories._remote_source(address)

    assert given == checked
    host, _, port = given.split("/")[2].partition(":")
    assert config["http.curloptResolve"] == f"{host}:{port or 443}:{PUBLIC}"


@pytest.mark.parametrize("host", ["exa%6dple.com", "a..b", "exam\u00adple..com"])
def test_a_host_that_git_could_read_differently_is_refused(monkeypatch, host):
    monkeypatch.setattr("core.http.resolve_host", lambda *_: [PUBLIC])

    with pytest.raises(ResourceFailed, match="is not the name of a host"):
        repositories._remote_source(f"https://{host}/x.git")


def test_an_attached_address_shows_the_host_in_punycode():
    fields = {"kind": "repo_mount", "mount_path": "/workspace/repo"}
    mount = read_input(Mount, {**fields, "source_ref": "https://g\u0456thub.com/a/b.git#main"})

    assert mount.source_ref == "https://xn--gthub-n2e.com/a/b.git#main"
    with pytest.raises(InvalidFields):
        read_input(Mount, {**fields, "source_ref": "https://ü..com/a"})
    with pytest.raises(InvalidFields, match="user name"):
        read_input(Mount, {**fields, "source_ref": "https://ü:secret@bücher.example/a"})
