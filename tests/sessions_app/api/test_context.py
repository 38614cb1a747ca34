"""Tests of compaction, snapshots, undo and the context preview over REST."""

from __future__ import annotations

import pytest

from sessions_app.models import ContextSnapshot
from tests.conftest import key_client
from tests.sessions_app.commands import as_json
from tests.sessions_app.long_talk import give_past, serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def path(session) -> str:
    give_past(session, 30, "the file notes/plan.md and ticket YARD-5")
    return f"/api/v1/sessions/{session.pk}/"


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setenv("DEMO_DELAY_SECONDS", "0")


def test_a_compaction_is_listed_and_undone(api, session, path):
    answer = api.post(f"{path}compact/", {"keep_recent_messages": 6}, format="json")
    assert answer.status_code == 202
    serve(session)
    run = api.get(f"/api/v1/runs/{answer.json()['run_id']}/").json()
    assert (run["status"], run["stop_reason"]) == ("completed", "compacted")

    page = api.get(f"{path}snapshots/").json()
    [listed] = page.pop("results")
    assert page == {"next": None, "previous": None}
    assert listed["is_active"]
    assert (listed["first_seq"], listed["last_seq"], listed["first_kept_seq"]) == (1, 24, 25)
    assert "notes/plan.md" in listed["summary"]
    context = api.get(f"{path}context/").json()
    assert context["snapshot_id"] == listed["id"]
    parts = {part["name"]: part for part in context["parts"]}
    assert parts["summary"]["content"].endswith(listed["summary"])
    assert len(parts["messages"]["content"]) == 6
    assert context["tokens"] == sum(part["tokens"] for part in context["parts"])
    assert context["tokens"] < context["threshold"] < context["window"]

    undone = api.post(f"{path}snapshots/{listed['id']}/undo/")
    assert undone.status_code == 200
    assert undone.json()["undone_at"]
    again = api.post(f"{path}snapshots/{listed['id']}/undo/")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    parts = {part["name"]: part for part in api.get(f"{path}context/").json()["parts"]}
    assert len(parts["messages"]["content"]) == 30


def test_only_the_newest_snapshot_can_be_undone_and_the_previous_one_becomes_active(
    api, session, path
):
    ids = []
    for keep in (12, 4):
        api.post(f"{path}compact/", {"keep_recent_messages": keep}, format="json")
        serve(session)
        ids.append(api.get(f"{path}snapshots/").json()["results"][0]["id"])

    assert api.post(f"{path}snapshots/{ids[0]}/undo/").status_code == 409
    assert api.post(f"{path}snapshots/{ids[1]}/undo/").status_code == 200
    session.refresh_from_db()
    assert session.snapshot_seq == ContextSnapshot.objects.get(pk=ids[0]).last_seq
    listed = api.get(f"{path}snapshots/").json()["results"]
    assert [one["is_active"] for one in listed] == [False, True]


@pytest.mark.parametrize(
    "body",
    [{"keep_recent_messages": -1}, {"keep_recent_messages": "x"}, {"target_token_count": 5}, []],
)
def test_invalid_options_are_refused(api, path, body):
    assert api.post(f"{path}compact/", body, format="json").status_code == 400


def test_a_read_only_key_cannot_compact(workspace, path):
    reader = key_client(workspace, "read")
    assert reader.get(f"{path}snapshots/").status_code == 200
    assert reader.post(f"{path}compact/", {}, format="json").status_code == 403


def test_an_ended_session_is_not_compacted(api, path):
    api.delete(path)
    assert api.post(f"{path}compact/", {}, format="json").status_code == 409


def test_a_compaction_meets_the_target_token_count(api, session, path):
    api.post(f"{path}compact/", {"target_token_count": 400}, format="json")
    serve(session)
    parts = {part["name"]: part for part in api.get(f"{path}context/").json()["parts"]}
    assert parts["summary"]["tokens"] + parts["messages"]["tokens"] <= 480


def test_the_command_queues_a_compaction(session, path):
    [said] = as_json("session", "compact", "--session", session.pk, "--keep", 4)
    serve(session)
    snapshot = ContextSnapshot.objects.get()
    assert (str(snapshot.run_id), snapshot.first_kept_seq) == (said["run_id"], 27)
