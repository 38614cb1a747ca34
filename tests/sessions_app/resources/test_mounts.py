"""Tests that resources are prepared by a worker and visible to commands and file tools alike."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agents.definitions import create_agent
from agents.environments import create_environment
from agents.providers.base import TextDelta, ToolCall
from memory.documents import write_entry
from memory.models import MemoryEntry
from memory.ownership import Owner, person
from sessions_app.models import Session, ToolExecution
from sessions_app.resources.attachments import attach, refresh
from sessions_app.sessions import get_or_create_session
from tenants import vault
from tenants.access import principal_of_user
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import say
from tests.tools_app.conftest import data_dir, needs_bwrap
from tools_app.files import SessionFolder, sandbox_gid, sandbox_uid
from tools_app.policy.evaluation import Decision, EffectivePolicy

__all__ = ["data_dir"]
pytestmark = needs_bwrap
ALLOWED = ("exec", "read", "write", "edit", "list_directory")


@pytest.fixture(autouse=True)
def allow_file_tools_and_commands(data_dir, monkeypatch):
    allow = Decision(decision="allow", decided_by="test")
    policy = EffectivePolicy(dict.fromkeys(ALLOWED, allow))
    monkeypatch.setattr("tools_app.policy.effective.Binding.policy", lambda _: policy)


@pytest.fixture
def use(session, principal, script):
    """Return a function that lets the model call a tool and returns the finished call."""

    def use(name: str, at: Session = session, by=principal, **arguments) -> ToolExecution:
        script(
            [ToolCall(call_id="c", name=name, arguments=arguments)],
            [TextDelta(text="Done.")],
        )
        say(at, by)
        serve(at.pk)
        return ToolExecution.objects.filter(session=at).latest("created_at")

    return use


def give(session, principal, kind, mount_path, source_ref="", access="read_only"):
    fields = {"kind": kind, "mount_path": mount_path, "source_ref": source_ref, "access": access}
    return attach(session, fields, principal)


def test_two_sessions_share_a_directory_of_the_workspace(session, principal, agent, use):
    other, _ = get_or_create_session(agent=agent)
    give(session, principal, "workspace_directory", "/workspace/data", "data", "read_write")
    give(other, principal, "workspace_directory", "/workspace/in", "data")

    assert "exit code 0" in use("exec", command="echo shared > /workspace/data/note.txt").output
    assert use("read", other, path="in/note.txt").output == "shared\n"
    assert "Read-only" in use("exec", other, command="echo x >> in/note.txt").output
    refused = use("write", other, path="/workspace/in/more.txt", content="x")
    assert (refused.state, "read-only" in refused.error) == ("error", True)
    assert use("write", path="data/more.txt", content="from a tool").state == "completed"
    assert "from a tool" in use("exec", other, command="cat in/more.txt").output
    assert session.resources.get().status == "ready"


def test_another_workspace_has_its_own_directory_of_the_same_name(
    session, principal, use, foreign_workspace, stranger
):
    give(session, principal, "workspace_directory", "/workspace/data", "data", "read_write")
    use("exec", command="echo ours > data/note.txt")
    fields = {"name": "Other", "provider": "demo", "model": "demo"}
    theirs = create_agent(workspace_id=foreign_workspace.pk, fields=fields)
    elsewhere, _ = get_or_create_session(agent=theirs)
    them = principal_of_user(stranger, foreign_workspace.pk)
    give(elsewhere, them, "workspace_directory", "/workspace/data", "data")

    assert use("list_directory", elsewhere, by=them, path="data").output == "data is empty."


def test_a_file_is_mounted_as_a_copy_and_links_are_refused(session, principal, use, data_dir):
    files = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk).make()
    (files / "notes.md").write_text("first")
    give(session, principal, "local_file", "/workspace/docs/copy.md", "notes.md")
    assert use("read", path="docs/copy.md").output == "first"
    (files / "notes.md").write_text("second")
    assert "first" in use("exec", command="cat docs/copy.md").output

    (data_dir / "outside").write_text("host secret")
    os.symlink(data_dir / "outside", files / "link")
    give(session, principal, "local_file", "/workspace/stolen", "link")
    failed = use("read", path="stolen")
    assert "could not be prepared" in failed.error
    resource = session.resources.get(mount_path="/workspace/stolen")
    assert resource.status == "failed"
    assert "link" in resource.reason
    assert newest(session, "session.resource_attached").payload["status"] == "failed"


def test_a_link_at_the_mount_path_is_refused(session, principal, use, data_dir):
    files = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk).make()
    victim = data_dir / "victim"
    victim.mkdir()
    victim.chmod(0o777)
    os.symlink(victim, files / "data")
    give(session, principal, "workspace_directory", "/workspace/data/below", "data", "read_write")
    assert use("exec", command="true").state == "completed"
    assert "is a link" in session.resources.get().reason
    assert list(victim.iterdir()) == []


def test_memory_is_mounted_as_files_and_fresh_in_each_run(session, principal, agent, use, owner):
    def learn(scope, owner_id, path, content):
        who = Owner(workspace_id=session.workspace_id, scope=scope, owner_id=owner_id)
        write_entry(owner=who, path=path, content=content, author=person(owner.pk))

    learn(MemoryEntry.Scope.AGENT, agent.pk, "learnings/git.md", "Rebase rarely.")
    learn(MemoryEntry.Scope.SESSION, session.pk, "session/plan.md", "Step one.")
    give(session, principal, "learnings_memory_store", "/memory/learnings")
    give(session, principal, "session_runtime_memory", "/runtime")

    assert use("read", path="/memory/learnings/learnings/git.md").output == "Rebase rarely."
    assert "Step one." in use("exec", command="cat /runtime/session/plan.md").output
    learn(MemoryEntry.Scope.SESSION, session.pk, "session/plan.md", "Step two.")
    assert "Step two." in use("exec", command="cat /runtime/session/plan.md").output
    assert "Read-only" in use("exec", command="touch /runtime/x").output


def test_secrets_exist_only_during_a_run_and_are_masked_in_output(
    session, principal, use, data_dir
):
    for name in ("TOKEN", "OTHER"):
        vault.add(session.workspace_id, name, f"word-of-{name}")
    resource = give(session, principal, "vault", "/vaults/deploy", "TOKEN, OTHER")
    assert "can read these secrets" in resource.notice
    said = use("exec", command="stat -c '%a %s' /vaults/deploy/TOKEN; cat /vaults/deploy/*")

    assert said.output.startswith("400 13\n")
    assert "word-of" not in said.output
    assert "[removed]" in said.output
    late = use("exec", command="cat /vaults/deploy/TOKEN; sleep 60", seconds=1)
    assert (late.state, "word-of" in late.error, "[removed]" in late.error) == (
        "error",
        False,
        True,
    )
    assert not list(data_dir.rglob("TOKEN"))


def test_a_secret_of_several_lines_is_masked_line_by_line(session, principal, use):
    value = "\n".join(f"line {nth} of the private part" for nth in range(6))
    vault.add(session.workspace_id, "PEM", value)
    give(session, principal, "vault", "/vaults/deploy", "PEM")
    said = use("exec", command="tac /vaults/deploy/PEM; base64 /vaults/deploy/PEM")

    assert "private part" not in said.output
    assert "bGluZSAwIG9m" not in said.output


def test_a_missing_secret_fails_the_resource(session, principal, use):
    give(session, principal, "vault", "/vaults/deploy", "TOKEN")
    call = use("exec", command="ls /vaults")
    assert call.state == "completed"
    assert session.resources.get().status == "failed"


@pytest.fixture
def repository(data_dir, settings) -> Path:
    """Create a repository in a folder that the operator allows."""
    root = data_dir / "repositories"
    origin = root / "origin"
    origin.mkdir(parents=True)
    git = [shutil.which("git") or "git", "-c", "user.name=T", "-c", "user.email=t@example.com"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "One"]):
        (origin / "README.md").write_text("hello from git\n")
        subprocess.run([*git, *arguments], cwd=origin, check=True)
    for path in (root, *root.rglob("*")):
        os.chown(path, sandbox_uid(), sandbox_gid())
    settings.REPO_ROOTS = [str(root)]
    return origin


def test_a_repository_of_an_allowed_folder_is_cloned(session, principal, use, repository):
    resource = give(
        session, principal, "repo_mount", "/workspace/repo", f"{repository}#main", "read_write"
    )
    assert use("read", path="repo/README.md").output == "hello from git\n"
    seen = use("exec", command="cd repo && git log --oneline | wc -l && echo own >> README.md")
    assert "exit code 0" in seen.output
    assert use("read", path="repo/README.md").output == "hello from git\nown\n"
    assert (repository / "README.md").read_text() == "hello from git\n"
    resource.refresh_from_db()
    assert resource.status == "ready"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("/etc", "REPO_ROOTS"),
        ("https://127.0.0.1/x.git", "not on the public internet"),
        ("https://localhost:8443/x.git", "not on the public internet"),
        ("https://[::1]/x.git", "not on the public internet"),
        ("https://169.254.169.254/x.git", "not on the public internet"),
    ],
)
def test_a_repository_outside_the_allowed_addresses_is_not_contacted(
    session, principal, use, source, reason
):
    give(session, principal, "repo_mount", "/workspace/repo", source)
    assert "could not be prepared" in use("list_directory", path="repo").error
    assert reason in session.resources.get().reason


def test_the_next_run_retries_a_failed_resource(session, principal, use, repository):
    moved = repository.with_name("later")
    repository.rename(moved)
    give(session, principal, "repo_mount", "/workspace/repo", str(repository))
    assert "git could not clone the repository" in use("list_directory", path="repo").error
    moved.rename(repository)
    assert "README.md" in use("list_directory", path="repo").output
    assert newest(session, "session.resource_attached").payload["status"] == "ready"


def test_a_remote_file_is_copied_through_the_egress_guard(
    session, principal, use, httpserver, settings
):
    httpserver.expect_request("/data/table.csv").respond_with_data("a,b\n1,2\n")
    address = httpserver.url_for("/data/table.csv")
    give(session, principal, "remote_file_store", "/workspace/table", address)
    assert "not on the public internet" in use("list_directory", path="table").error
    settings.EGRESS_ALLOWED_PRIVATE = [f"web={httpserver.host}:{httpserver.port}"]
    assert use("read", path="table/table.csv").output == "a,b\n1,2\n"
    assert len(httpserver.log) == 1
    use("exec", command="cat table/table.csv")
    assert len(httpserver.log) == 1
    refresh(session, session.resources.get().pk)
    use("exec", command="cat table/table.csv")
    assert len(httpserver.log) == 2


def test_an_object_store_without_its_package_is_refused(session, principal, use):
    give(session, principal, "remote_file_store", "/workspace/bucket", "s3://bucket/key")
    assert "s3fs" in use("list_directory", path="bucket").error


def test_a_new_session_has_the_mounts_of_its_environment(workspace, owner, agent):
    mount = {"kind": "workspace_directory", "source_ref": "data", "mount_path": "/workspace/data"}
    place = create_environment(
        workspace_id=workspace.pk, fields={"name": "With data", "mounts": [mount]}
    )
    made, _ = get_or_create_session(agent=agent, environment=place)
    assert made.resources.values_list("kind", "mount_path", "status").get() == (
        "workspace_directory",
        "/workspace/data",
        "pending",
    )
