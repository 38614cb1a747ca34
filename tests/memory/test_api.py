"""Tests of memory over REST, as the public API documents it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from memory.models import MemoryEntry
from memory.ownership import Reader
from tests.conftest import add_member, key_client
from tests.memory.conftest import remember_for

MEMORY = "/api/v1/memory/"


def post(api, **fields):
    return api.post(MEMORY, fields, format="json")


def test_a_document_can_be_created_read_changed_and_deleted(api, agent, owner):
    made = post(api, path="a.md", content="one", scope="agent", agent=str(agent.pk), pinned=True)
    assert made.status_code == 201, made.json()
    body = made.json()
    assert (body["path"], body["content"], body["scope"]) == ("a.md", "one", "agent")
    assert (body["agent"], body["pinned"], body["version"]) == (str(agent.pk), True, 1)
    assert body["created_by"] == str(owner.pk)
    assert body["provenance"]["author"] == "person"

    at = f"{MEMORY}{body['id']}/"
    changed = api.patch(at, {"content": "two", "expected_hash": body["hash"]}, format="json")
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    assert changed.json()["pinned"] is True
    assert api.get(at).json()["content"] == "two"
    assert [one["id"] for one in api.get(MEMORY).json()["results"]] == [body["id"]]

    assert api.delete(at).status_code == 204
    assert api.get(at).status_code == 404
    assert api.get(MEMORY).json()["results"] == []
    assert len(api.get(MEMORY, {"deleted": "true"}).json()["results"]) == 1


def test_a_response_can_be_edited_and_put_back(api):
    body = post(api, path="a.md", content="one").json()
    answer = api.put(f"{MEMORY}{body['id']}/", {**body, "content": "two"}, format="json")

    assert answer.status_code == 200, answer.json()
    assert answer.json()["content"] == "two"


def test_a_stale_change_is_refused_with_the_newer_version(api):
    first = post(api, path="a.md", content="one").json()
    at = f"{MEMORY}{first['id']}/"
    newer = api.patch(at, {"content": "two"}, format="json").json()
    stale = api.patch(at, {"content": "three", "expected_hash": first["hash"]}, format="json")

    assert stale.status_code == 409
    problem = stale.json()
    assert problem["code"] == "memory_conflict"
    assert problem["current"] == {
        "id": first["id"],
        "path": "a.md",
        "version": 2,
        "hash": newer["hash"],
        "content": "two",
    }
    assert api.delete(f"{at}?expected_hash={first['hash']}").status_code == 409
    assert api.get(at).json()["content"] == "two"


def test_a_taken_path_is_refused_with_the_existing_document(api):
    post(api, path="a.md", content="one")
    again = post(api, path="a.md", content="mine")

    assert again.status_code == 409
    assert again.json()["current"]["content"] == "one"


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_concurrent_changes_gets_409_with_the_others_text(workspace):
    body = post(key_client(workspace), path="a.md", content="one").json()
    clients = [key_client(workspace), key_client(workspace)]

    def change(number: int):
        try:
            fields = {"content": f"text {number}", "expected_hash": body["hash"]}
            return clients[number].patch(f"{MEMORY}{body['id']}/", fields, format="json")
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = sorted(pool.map(change, range(2)), key=lambda one: one.status_code)

    assert [one.status_code for one in answers] == [200, 409]
    assert answers[1].json()["current"]["content"] == answers[0].json()["content"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"path": "a.md"}, 400),
        ({"content": "x"}, 400),
        ({"path": "../a.md", "content": "x"}, 400),
        ({"path": "a.md", "content": "x", "scope": "agent"}, 400),
        ({"path": "a.md", "content": "x", "scope": "session"}, 400),
        ({"path": "a.md", "content": "x", "scope": "planet"}, 400),
        ({"path": "a.md", "content": "x", "agent": "nobody"}, 400),
        ({"path": "a.md", "content": "x", "owner": "me"}, 400),
        ({"path": "a.md", "content": "x\u0000"}, 400),
        ({"path": "a.md", "content": "x" * 100_001}, 413),
        ({"path": "a.md", "content": ""}, 201),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_input_is_refused(api, fields, status):
    assert post(api, **fields).status_code == status


def test_an_agent_of_another_workspace_is_refused_like_a_missing_one(api, foreign_workspace):
    from tests.factories import agent

    answer = post(api, path="a.md", content="x", agent=str(agent(foreign_workspace).pk))

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "agent"


def test_the_owner_of_a_document_cannot_be_changed(api, agent):
    body = post(api, path="a.md", content="x").json()

    for change in ({"scope": "user"}, {"agent": str(agent.pk)}):
        assert api.patch(f"{MEMORY}{body['id']}/", change, format="json").status_code == 400


def test_a_persons_own_documents_are_hidden_from_everyone_else(api, workspace, owner, client):
    mine = post(api, path="diary.md", content="A secret kettle.", scope="user").json()
    assert mine["user"] == str(owner.pk)
    client.force_login(add_member(workspace, "admin"))

    assert client.get(f"{MEMORY}{mine['id']}/").status_code == 404
    assert client.get(f"{MEMORY}{mine['id']}/versions/").status_code == 404
    assert client.get(MEMORY).json()["results"] == []
    assert client.get(f"{MEMORY}search/", {"q": "kettle"}).json()["results"] == []
    assert api.get(f"{MEMORY}search/", {"q": "kettle"}).json()["results"]


def test_search_explains_each_hit(api, remember):
    remember("office.md", "The office closes at six.")
    answer = api.get(f"{MEMORY}search/", {"q": "When does the office close?", "limit": 5})
    assert answer.json().keys() == {"results", "next", "previous"}

    assert answer.status_code == 200
    hit = answer.json()["results"][0]
    assert hit["id"] == str(MemoryEntry.objects.get().pk)
    assert (hit["path"], hit["excerpt"]) == ("office.md", "The office closes at six.")
    assert hit["score"] == pytest.approx(sum(hit["parts"].values()), abs=1e-4)
    assert {"text", "meaning", "recency", "pin", "neighbours"} <= set(hit["parts"])


def test_search_for_an_agent_finds_what_that_agent_can_see(
    api, remember, workspace, agent, session
):
    from tests.factories import agent as another

    other = another(workspace)
    remember("own.md", "A kettle.")
    remember("all.md", "Every kettle in the house.", scope="workspace")
    remember("now.md", "The kettle of this talk.", scope="session")
    theirs = Reader(workspace_id=workspace.pk, agent_id=other.pk)
    remember_for(theirs, "theirs.md", "Their kettle.")

    def paths(**asked) -> set[str]:
        answer = api.get(f"{MEMORY}search/", {"q": "kettle", **asked})
        return {hit["path"] for hit in answer.json()["results"]}

    assert paths() == {"own.md", "all.md", "now.md", "theirs.md"}
    assert paths(agent=agent.pk) == {"own.md", "all.md"}
    assert paths(session=session.pk) == {"own.md", "all.md", "now.md"}
    assert paths(agent=other.pk) == {"theirs.md", "all.md"}
    assert api.get(f"{MEMORY}search/", {"q": "kettle", "agent": "nobody"}).status_code == 404


@pytest.mark.parametrize(
    "asked",
    [
        *({}, {"q": " "}, {"q": "x" * 2001}, {"q": "x", "session": "1"}),
        *({"q": "x", "limit": "many"}, {"q": "x", "limit": "0"}, {"q": "x", "recency": "nan"}),
    ],
    ids=str,
)
def test_an_invalid_search_is_refused(api, asked):
    assert api.get(f"{MEMORY}search/", asked).status_code == 400


def test_versions_can_be_listed_restored_and_redacted(api, owner):
    body = post(api, path="a.md", content="one").json()
    at = f"{MEMORY}{body['id']}/"
    api.patch(at, {"content": "two"}, format="json")
    listed = api.get(f"{at}versions/").json()["results"]
    assert [(one["version"], one["content"]) for one in listed] == [(2, "two"), (1, "one")]

    restored = api.post(f"{at}restore/", {"version": 1}, format="json")
    assert (restored.status_code, restored.json()["content"]) == (200, "one")
    assert restored.json()["version"] == 3
    again = api.post(f"{at}versions/2/restore/", {}, format="json")
    assert again.json()["content"] == "two"
    assert api.get(f"{at}versions/4/").json()["content"] == "two"
    by_id = api.post(f"{at}restore/", {"version": listed[1]["id"]}, format="json")
    assert (by_id.json()["content"], by_id.json()["version"]) == ("one", 5)
    elsewhere = {"version": str(owner.pk)}
    assert api.post(f"{at}restore/", elsewhere, format="json").status_code == 404
    assert api.post(f"{at}restore/", {"version": 9}, format="json").status_code == 404
    assert api.post(f"{at}restore/", {"version": "x"}, format="json").status_code == 400

    stale = {"expected_hash": again.json()["hash"]}
    assert api.post(f"{at}redact/", stale, format="json").status_code == 409
    assert api.post(f"{at}redact/", {"expected_hash": 1}, format="json").status_code == 400
    assert api.post(f"{at}redact/", {}, format="json").status_code == 200
    for version in api.get(f"{at}versions/").json()["results"]:
        assert (version["content"], version["hash"]) == ("", "")
        assert version["redacted_by"] == str(owner.pk)
        assert version["created_at"]
    assert api.post(f"{at}restore/", {"version": 1}, format="json").status_code == 409


def test_a_deleted_document_can_be_restored(api):
    body = post(api, path="a.md", content="one").json()
    at = f"{MEMORY}{body['id']}/"
    api.delete(at)

    assert api.post(f"{at}restore/", {"version": 1}, format="json").status_code == 200
    assert api.get(at).json()["content"] == "one"


def test_a_read_key_cannot_change_memory_and_only_admins_can_redact(workspace, remember):
    entry = remember("a.md", "one")
    at = f"{MEMORY}{entry.pk}/"
    reading, running = key_client(workspace, "read"), key_client(workspace, "run")

    assert post(reading, path="b.md", content="x").status_code == 403
    assert reading.patch(at, {"content": "x"}, format="json").status_code == 403
    assert reading.delete(at).status_code == 403
    assert reading.get(f"{MEMORY}search/", {"q": "one"}).status_code == 200
    assert running.patch(at, {"content": "x"}, format="json").status_code == 200
    assert running.post(f"{at}redact/", {}, format="json").status_code == 403


def test_lists_can_be_filtered_by_path_scope_and_agent(api, agent, remember):
    remember("learnings/a.md", "x")
    remember("notes/b.md", "x", scope="workspace")

    def paths(**asked) -> list[str]:
        return [one["path"] for one in api.get(MEMORY, asked).json()["results"]]

    assert paths(prefix="learnings/") == paths(agent=agent.pk) == ["learnings/a.md"]
    assert paths(scope="workspace") == paths(path="notes/b.md") == ["notes/b.md"]
    assert paths(path="\x00") == []
