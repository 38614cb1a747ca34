"""Tests of a session's resources, of the tool ledger and of the context preview over REST."""

from __future__ import annotations

import pytest

from agents.definitions import change_agent
from agents.providers.base import TextDelta
from core.ids import uuid7
from sessions_app.models import ToolExecution
from tests.conftest import key_client
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.api.test_messages import say
from tests.sessions_app.api.test_sessions import at, post
from tests.sessions_app.conftest import newest, serve, types
from tests.sessions_app.parking import park

NOTES = {"kind": "local_file", "source_ref": "notes.md", "mount_path": "/workspace/notes.md"}
EXECUTIONS = "/api/v1/tools/executions/"


def attach(api, session, **changes):
    return post(api, at(session, "resources/"), {**NOTES, **changes})


def test_an_attached_resource_is_listed_and_recorded_in_the_log(api, session, owner):
    answer = attach(api, session, mount_path="/workspace//docs/./notes.md")

    assert answer.status_code == 201
    resource = answer.json()
    assert resource == {
        **NOTES,
        "id": resource["id"],
        "mount_path": "/workspace/docs/notes.md",
        "access": "read_only",
        "status": "pending",
        "reason": "",
        "notice": "",
        "prepared_at": None,
        "created_by": str(owner.pk),
        "created_at": resource["created_at"],
    }
    assert api.get(at(session, "resources/")).json()["results"] == [resource]
    assert api.get(at(session, f"resources/{resource['id']}/")).json() == resource
    event = newest(session, "session.resource_attached")
    assert event.payload["resource_id"] == resource["id"]
    assert event.payload["attached"] is True


@pytest.mark.parametrize(
    ("said", "meant"), [("ro", "read_only"), ("read-only", "read_only"), ("rw", "read_write")]
)
def test_access_accepts_common_abbreviations(api, session, said, meant):
    answer = attach(api, session, access=said)

    assert (answer.status_code, answer.json()["access"]) == (201, meant)


def test_a_resource_can_be_detached(api, session):
    resource_id = attach(api, session).json()["id"]

    assert api.delete(at(session, f"resources/{resource_id}/")).status_code == 204
    assert api.get(at(session, "resources/")).json()["results"] == []
    assert newest(session, "session.resource_attached").payload["attached"] is False
    assert_problem(api.delete(at(session, f"resources/{resource_id}/")), 404, "not_found")


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "planet"},
        {"mount_path": "notes.md"},
        {"mount_path": "/workspace/../etc/passwd"},
        {"mount_path": "/etc/passwd"},
        {"mount_path": "/"},
        {"mount_path": "/a\0b"},
        {"mount_path": "/" + "x" * 200},
        {"mount_path": "/workspace"},
        {"mount_path": "/workspaces/notes.md"},
        {"kind": "vault", "source_ref": "A B", "mount_path": "/vaults/x"},
        {"kind": "vault", "source_ref": "A", "mount_path": "/workspace/x"},
        {"kind": "vault", "source_ref": "A", "mount_path": "/vaults/x", "access": "read_write"},
        {"kind": "learnings_memory_store", "mount_path": "/workspace/memory"},
        {"kind": "session_runtime_memory", "mount_path": "/runtime", "access": "read_write"},
        {"kind": "workspace_directory", "source_ref": "a/b"},
        {"kind": "workspace_directory", "source_ref": ".."},
        {"kind": "repo_mount", "source_ref": "git@example.com:x.git"},
        {"kind": "repo_mount", "source_ref": "http://example.com/x.git"},
        {"kind": "repo_mount", "source_ref": "https://me:pass@example.com/x.git"},
        {"kind": "repo_mount", "source_ref": "https://example.com/x.git#--upload-pack=x"},
        {"kind": "remote_file_store", "source_ref": "file:///etc/passwd"},
        {"kind": "remote_file_store", "source_ref": "memory://x/y"},
        {"kind": "remote_file_store", "source_ref": "https://e.example/x", "access": "read_write"},
        {"source_ref": "../../secrets"},
        {"source_ref": "/etc/passwd"},
        {"access": "execute"},
        {"colour": "red"},
    ],
)
def test_a_resource_that_is_not_valid_is_refused(api, session, changes):
    assert_problem(attach(api, session, **changes), 400, "invalid")
    assert types(session) == []


def test_two_resources_cannot_share_a_mount_path(api, session):
    attach(api, session)

    assert_problem(attach(api, session, mount_path="/workspace/./notes.md"), 409, "conflict")
    assert session.resources.count() == 1


def test_a_session_has_a_maximum_number_of_resources(api, session, monkeypatch):
    monkeypatch.setattr("sessions_app.resources.attachments.MAX_RESOURCES", 1)
    attach(api, session)

    assert_problem(attach(api, session, mount_path="/workspace/other.md"), 409, "conflict")


def test_a_resource_cannot_be_mounted_inside_another(api, session):
    attach(api, session, mount_path="/workspace/docs/notes.md")

    for path in ("/workspace/docs", "/workspace/docs/notes.md/more"):
        assert_problem(attach(api, session, mount_path=path), 409, "conflict")


def test_only_builders_attach_secrets_and_a_notice_explains_the_consequence(
    api, session, workspace
):
    secret = {"kind": "vault", "source_ref": "TOKEN", "mount_path": "/vaults/deploy"}
    assert_problem(attach(key_client(workspace, "run"), session, **secret), 403, "forbidden")

    answer = attach(api, session, **secret)
    assert answer.status_code == 201
    assert "can read these secrets" in answer.json()["notice"]
    said = newest(session, "session.resource_attached").payload
    assert said["notice"] == answer.json()["notice"]


def test_a_read_only_resource_can_be_prepared_again(api, session):
    resource_id = attach(api, session).json()["id"]
    session.resources.update(status="failed", reason="It was gone.")

    answer = api.post(at(session, f"resources/{resource_id}/refresh/"))
    assert (answer.status_code, answer.json()["status"], answer.json()["reason"]) == (
        200,
        "pending",
        "",
    )
    session.resources.update(access="read_write", prepared_as="x/y")
    assert_problem(api.post(at(session, f"resources/{resource_id}/refresh/")), 409, "conflict")


def test_an_archived_session_accepts_no_resources(api, session):
    api.delete(at(session))

    assert_problem(attach(api, session), 409, "session_ended")


def test_a_stranger_cannot_attach_or_detach_resources(api, foreign_api, session):
    resource_id = attach(api, session).json()["id"]

    assert_problem(attach(foreign_api, session), 404, "not_found")
    assert_problem(foreign_api.delete(at(session, f"resources/{resource_id}/")), 404, "not_found")
    assert session.resources.count() == 1


def test_the_ledger_lists_calls_by_session_state_and_name(api, foreign_api, session):
    park(session, "tu_1", "tu_2")
    ToolExecution.objects.filter(tool_use_id="tu_2").update(state="unknown", name="sweep")

    def found(**query) -> list[str]:
        results = api.get(EXECUTIONS, query).json()["results"]
        return [one["tool_use_id"] for one in results]

    assert sorted(found()) == ["tu_1", "tu_2"]
    assert found(state="unknown") == ["tu_2"]
    assert found(name="clean") == ["tu_1"]
    assert found(session=str(uuid7())) == []
    assert found(session=str(session.pk), state="awaiting_approval") == ["tu_1"]
    assert foreign_api.get(EXECUTIONS).json()["results"] == []
    assert_problem(api.get(EXECUTIONS, {"state": "odd"}), 400, "invalid")


def test_a_ledger_entry_shows_the_call_and_its_state(api, foreign_api, session):
    park(session, "tu_1")
    call = ToolExecution.objects.get()
    one = api.get(f"{EXECUTIONS}{call.pk}/").json()

    assert one["session_id"] == str(session.pk)
    assert (one["name"], one["input"], one["state"]) == (
        "clean",
        {"place": "yard"},
        "awaiting_approval",
    )
    assert_problem(foreign_api.get(f"{EXECUTIONS}{call.pk}/"), 404, "not_found")


def test_the_context_lists_its_parts_with_tokens_and_the_window(api, session, script):
    def context() -> dict:
        return api.get(at(session, "context/")).json()

    empty = context()
    assert [part["name"] for part in empty["parts"]] == [
        "instructions",
        "skills",
        "messages",
        "tools",
    ]
    assert (empty["provider"], empty["model"], empty["window"]) == ("demo", "demo", 32_000)
    assert empty["parts"][0]["content"] == "Test."
    assert empty["parts"][2] == {"name": "messages", "tokens": 0, "resent": 0, "content": []}

    script([TextDelta(text="Hello you.")])
    say(api, session, "Hello")
    serve(session.pk)
    now = context()
    messages = now["parts"][2]["content"]
    assert [(m["role"], m["text"]) for m in messages] == [
        ("user", "Hello"),
        ("assistant", "Hello you."),
    ]
    assert now["tokens"] == sum(part["tokens"] for part in now["parts"]) > empty["tokens"]


def test_the_context_shows_exactly_what_the_model_received(api, session, agent, script):
    change_agent(agent, {"system_prompt": "Be brief."})
    api.patch(at(session), {"agent_version": 2}, format="json")
    provider = script([TextDelta(text="Hi.")])
    say(api, session, "Hello")
    serve(session.pk)
    asked, parts = provider.requests[0], api.get(at(session, "context/")).json()["parts"]

    assert parts[0]["content"] == "Be brief."
    assert asked.instructions == f"Be brief.\n\n{parts[1]['content']}"
    assert [tool["name"] for tool in parts[3]["content"]] == [tool.name for tool in asked.tools]
    assert parts[3]["content"]
