"""Tests of imports, exports and moves of memory that run as workflows."""

from __future__ import annotations

import io
import zipfile
from time import time
from typing import Any

import orjson
import pytest
from django.db import connection, transaction

from agents.models import Agent
from core.ids import uuid7
from memory import archive
from memory.embedders import SENTENCES, SentenceEmbedder, WordLlamaEmbedder
from memory.embeddings import missing
from memory.models import EmbeddingChoice, MemoryEntry
from memory.ownership import Owner
from orchestrator import transfers
from orchestrator.engine.lifecycle import start_as, terminate
from orchestrator.engine.recovery import recover
from orchestrator.engine.store import rows
from orchestrator.models import Workflow
from orchestrator.tasks import sandbox as sandboxes
from orchestrator.tasks.artifacts import artifacts_of, open_artifact
from sessions_app.log import transfer
from sessions_app.models import Session
from sessions_app.pages import chats
from tests.conftest import key_client
from tests.orchestrator.conftest import now, serve, serve_one

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("data_dir", "nothing_is_small")]
NOTES = {"a.md": "Tea is served at five.", "b.md": "The kettle is in the yard."}
EVENTS: list[dict[str, Any]] = [
    {"type": "user.message", "payload": {"text": f"Message {n}"}} for n in range(20)
]


@pytest.fixture
def nothing_is_small(monkeypatch):
    """Let everything be too large for a request."""
    monkeypatch.setattr(archive, "SMALL_FILES", 0)
    for module in (transfer, chats):
        monkeypatch.setattr(module, "SMALL_EVENTS", 0)
    monkeypatch.setattr("sessions_app.api.sessions.SMALL_BYTES", 10)


@pytest.fixture
def agent(workspace) -> Agent:
    return Agent.objects.filter(workspace=workspace).first()


def make_zip(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return out.getvalue()


def import_zip(api, agent, files=NOTES) -> Workflow:
    answer = api.post(
        f"/api/v1/memory/import/?agent={agent.pk}", make_zip(files), content_type="application/zip"
    )
    assert answer.status_code == 202, answer.json()
    return Workflow.objects.get(pk=answer.json()["workflow_id"])


def import_log(api, agent) -> Workflow:
    body = b"\n".join(map(orjson.dumps, EVENTS))
    answer = api.post(
        f"/api/v1/sessions/import/?agent={agent.pk}&title=Old",
        body,
        content_type="application/x-ndjson",
    )
    assert answer.status_code == 202, answer.json()
    return Workflow.objects.get(pk=answer.json()["workflow_id"])


def documents(agent) -> dict[str, str]:
    found = MemoryEntry.objects.filter(agent=agent).select_related("current")
    return {one.path: one.current.content for one in found}


class Killed(BaseException):
    """Ends a worker as a kill does."""


def lose(made: Workflow) -> None:
    """Expire the lease of the workflow's worker and recover it."""
    rows("UPDATE workflows SET lease_expires = 'epoch' WHERE id = %s RETURNING 1", [made.pk])
    recover()


def test_a_large_import_is_a_workflow_with_progress_and_leaves_no_upload(api, agent, workspace):
    made = import_zip(api, agent)
    assert documents(agent) == {}
    serve()

    assert now(made).status == "complete", now(made).error
    assert now(made).output == {"created": 2, "changed": 0, "unchanged": 0}
    assert documents(agent) == NOTES
    assert not missing(workspace.pk, SENTENCES).exists()
    told = api.get(f"/api/v1/workflows/{made.pk}/").json()
    assert told["progress"]["percent"] == 100
    assert sandboxes.read(made.pk) is None
    assert not (sandboxes.task_folder(workspace.pk, made.pk) / "files" / "upload").exists()


def test_an_import_that_conflicts_imports_nothing(api, agent, workspace):
    import_zip(api, agent)
    serve()
    made = import_zip(api, agent, {"a.md": "Tea is served at six.", "c.md": "New."})
    serve()

    assert now(made).status == "errored"
    assert "a.md has changed" in now(made).error["message"]
    assert documents(agent) == NOTES


def test_an_import_whose_worker_is_killed_is_imported_once(api, agent, monkeypatch):
    made = import_zip(api, agent)
    original = archive._import

    def die_at_the_second(owner, document, *rest, **words):
        if document.path == "b.md":
            raise Killed
        return original(owner, document, *rest, **words)

    monkeypatch.setattr(archive, "_import", die_at_the_second)
    with pytest.raises(Killed):
        serve_one()
    assert documents(agent) == {}
    monkeypatch.setattr(archive, "_import", original)
    lose(made)
    serve()

    assert now(made).status == "complete"
    assert documents(agent) == NOTES


def test_a_stopped_import_writes_nothing(api, agent, monkeypatch):
    made = import_zip(api, agent)
    original = archive._import

    def stop_meanwhile(*given, **words):
        monkeypatch.setattr("orchestrator.engine.steps.Replay.stopped", True)
        return original(*given, **words)

    monkeypatch.setattr(archive, "_import", stop_meanwhile)
    serve_one()
    terminate(now(made))

    assert documents(agent) == {}
    assert now(made).status == "terminated"


def test_a_killed_import_of_a_session_makes_one_session(api, agent, monkeypatch):
    made = import_log(api, agent)

    def die(point):
        if point == "step_done":
            raise Killed

    monkeypatch.setattr("orchestrator.engine.steps.crash_point", die)
    with pytest.raises(Killed):
        serve_one()
    monkeypatch.undo()
    lose(made)
    serve()

    session = Session.objects.get(title="Old")
    assert now(made).output == {"session_id": str(session.pk)}
    assert session.last_seq == session.events.count() == len(EVENTS)


def test_an_export_of_memory_becomes_an_artifact(api, agent, client):
    import_zip(api, agent)
    serve()
    path = f"/api/v1/memory/export/?agent={agent.pk}"
    refused = api.get(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "export_too_large")
    answer = api.post(path)
    assert answer.status_code == 202
    serve()
    made = Workflow.objects.get(pk=answer.json()["workflow_id"])
    (listed,) = api.get(f"/api/v1/workflows/{made.pk}/artifacts/").json()["results"]

    with open_artifact(made, listed["path"]) as file, zipfile.ZipFile(file) as unpacked:
        assert set(unpacked.namelist()) == set(NOTES)
        assert NOTES["a.md"] in unpacked.read("a.md").decode()


def test_a_viewer_may_export_and_not_import(workspace, agent):
    api = key_client(workspace, "read")

    assert api.post(f"/api/v1/memory/export/?agent={agent.pk}").status_code == 202
    refused = api.post(
        f"/api/v1/memory/import/?agent={agent.pk}", make_zip(NOTES), content_type="application/zip"
    )
    assert refused.status_code == 403


def test_the_pages_start_the_same_workflows(browser_client, agent):
    file = io.BytesIO(make_zip(NOTES))
    file.name = "memory.zip"
    started = browser_client.post("/memory/import/", {"owner": f"agent:{agent.pk}", "file": file})
    assert started["Location"].startswith("/workflows/")
    serve()
    path = f"/memory/export/?of=agent:{agent.pk}"

    assert documents(agent) == NOTES
    assert "Prepare the export" in browser_client.get(path).text
    assert browser_client.post(path)["Location"].startswith("/workflows/")
    serve()
    assert Workflow.objects.filter(name="export-memory").get().status == "complete"


def test_a_persons_own_memory_is_exported_at_once_and_shown_to_no_one_else(browser_client, api):
    at_once = browser_client.get("/memory/export/?of=user")
    assert at_once["Content-Type"] == "application/zip"
    b"".join(at_once.streaming_content)
    assert browser_client.post("/memory/export/?of=user").status_code == 403
    refused = api.post(
        "/api/v1/workflows/",
        {"name": "export-memory", "params": {"scope": "user"}},
        format="json",
    )
    assert refused.status_code == 400


def test_a_long_chat_is_exported_by_a_workflow(api, agent, browser_client):
    import_log(api, agent)
    serve()
    session = Session.objects.get(title="Old")
    path = f"/chat/{session.pk}/export/"

    assert "Prepare the export" in browser_client.get(path).text
    started = browser_client.post(path)
    serve()
    made = Workflow.objects.get(name="export-session")
    files = {one["path"].rpartition(".")[2]: one["path"] for one in artifacts_of(now(made))}
    assert started["Location"] == f"/workflows/{made.pk}/"
    with open_artifact(made, files["jsonl"]) as log, open_artifact(made, files["md"]) as text:
        assert [orjson.loads(line)["payload"]["text"] for line in log] == [
            one["payload"]["text"] for one in EVENTS
        ]
        assert "Message 19" in text.read().decode()
    assert api.post(f"/api/v1/sessions/{session.pk}/export/").status_code == 202


@pytest.mark.django_db(transaction=True)
def test_memory_moves_to_another_model_only_for_an_admin(
    api, agent, workspace, principal, monkeypatch
):
    import_zip(api, agent)
    serve()
    monkeypatch.setattr(WordLlamaEmbedder, "name", "other")
    monkeypatch.setattr("memory.embeddings.embedder_named", lambda *_, **__: WordLlamaEmbedder())
    by_key = key_client(workspace, "run").post(
        "/api/v1/workflows/", {"name": "reembed-memory", "params": {"model": "x"}}, format="json"
    )
    serve()
    refused = Workflow.objects.get(pk=by_key.json()["id"])
    assert refused.status == "errored"
    assert EmbeddingChoice.objects.get(workspace=workspace).model == SENTENCES

    made, _ = start_as(principal, "reembed-memory", {"model": "x"})
    serve()

    assert now(made).output == {"model": "x", "embedded": 2}
    assert EmbeddingChoice.objects.get(workspace=workspace).model == "other"


def test_an_upload_whose_workflow_was_never_started_is_removed(
    workspace, principal, agent, monkeypatch
):
    owner = Owner(workspace_id=workspace.pk, scope=MemoryEntry.Scope.AGENT, owner_id=agent.pk)

    def die(*_, **__):
        raise Killed

    monkeypatch.setattr(transfers, "_start", die)
    monkeypatch.setattr(sandboxes, "close", die)
    with pytest.raises(Killed):
        transfers.start_memory_import(principal, owner, io.BytesIO(b"x"), overwrite=False)
    monkeypatch.undo()
    (id,) = sandboxes.workflows_with_sandbox()
    assert sandboxes.unneeded() == []  # it may be about to start
    later = time() + 2 * transfers.UNCLAIMED_SECONDS
    monkeypatch.setattr("orchestrator.tasks.sandbox.time.time", lambda: later)

    sandboxes.close_all(sandboxes.unneeded())
    sandboxes.forget_erased()

    assert not sandboxes.task_folder(workspace.pk, id).exists()


@pytest.mark.django_db(transaction=True)
def test_a_request_holds_no_connection_while_it_stores_an_upload(api, agent, monkeypatch):
    held: list[Any] = []
    original = transfers._store

    def watched(*given):
        held.append(connection.connection)
        return original(*given)

    monkeypatch.setattr(transfers, "_store", watched)
    import_zip(api, agent)

    assert held == [None]


@pytest.mark.django_db(transaction=True)
def test_no_import_computes_vectors_within_its_transaction(api, agent, monkeypatch):
    held: list[bool] = []
    original = SentenceEmbedder.embed

    def watched(self, texts):
        held.append(connection.connection is not None)
        return original(self, texts)

    monkeypatch.setattr(SentenceEmbedder, "embed", watched)
    monkeypatch.setattr(archive, "SMALL_FILES", 100)
    answer = api.post(
        f"/api/v1/memory/import/?agent={agent.pk}", make_zip(NOTES), content_type="application/zip"
    )
    assert answer.status_code == 200
    monkeypatch.setattr(archive, "SMALL_FILES", 0)
    import_zip(api, agent, {"c.md": "Another one."})
    serve()

    assert held
    assert not any(held)


def test_owner_params_name_no_other_workspace(workspace, foreign_workspace, api):
    foreign = Agent.objects.filter(workspace=foreign_workspace).first()
    started = api.post(
        "/api/v1/workflows/",
        {"name": "export-memory", "params": {"scope": "agent", "agent": str(foreign.pk)}},
        format="json",
    )
    serve()

    assert Workflow.objects.get(pk=started.json()["id"]).status == "errored"
    for name, params in (("export-session", {"session": str(uuid7())}), ("import-memory", {})):
        with transaction.atomic():
            answer = api.post("/api/v1/workflows/", {"name": name, "params": params}, format="json")
        serve()
        assert Workflow.objects.get(pk=answer.json()["id"]).status == "errored"
