"""Tests of creating, finding, changing, forking and archiving sessions over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.definitions import archive_agent, change_agent
from agents.environments import create_environment
from sessions_app.models import Run, Session
from tests.conftest import key_client
from tests.sessions_app.conftest import serve, types

SESSIONS = "/api/v1/sessions/"
SHAPE = {
    "id",
    "agent",
    "agent_name",
    "agent_version",
    "environment",
    "session_key",
    "title",
    "metadata",
    "outcome",
    "verdict",
    "status",
    "last_seq",
    "usage",
    "parent",
    "provider",
    "model",
    "branch_root",
    "branch_of",
    "branch_seq",
    "is_shown",
    "folder",
    "queue_length",
    "created_by",
    "created_at",
    "active_at",
    "archived_at",
}


def post(client: Any, path: str, body: object, **headers: str) -> Any:
    return client.post(path, body, format="json", headers=headers)


def at(session: Session | str, more: str = "") -> str:
    return f"{SESSIONS}{session.pk if isinstance(session, Session) else session}/{more}"


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [one["id"] for one in answer.json()["results"]]


def test_a_session_has_the_published_shape(api, agent, owner):
    body = {"agent": str(agent.pk), "title": "Trip", "metadata": {"channel": "mail"}}
    made = post(api, SESSIONS, body)

    assert made.status_code == 201
    session = made.json()
    assert set(session) == SHAPE
    assert session["agent"] == str(agent.pk)
    assert session["agent_name"] == "Tester"
    assert session["agent_version"] == 1
    assert session["usage"] == {"input_tokens": 0, "output_tokens": 0, "cost": "0"}
    assert (session["status"], session["last_seq"], session["queue_length"]) == ("idle", 0, 0)
    assert session["metadata"] == {"channel": "mail"}
    assert session["created_by"] == str(owner.pk)
    assert api.get(at(session["id"])).json() == session


def test_the_same_agent_and_key_give_the_same_session(api, agent):
    first = post(api, SESSIONS, {"agent": "Tester", "session_key": "mail:1"})
    again = post(api, SESSIONS, {"agent": str(agent.pk), "session_key": "mail:1", "title": "x"})
    other = post(api, SESSIONS, {"agent": "Tester", "session_key": "mail:2"})
    keyless = [post(api, SESSIONS, {"agent": "Tester", "session_key": key}) for key in ("", None)]

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert again.json() == first.json()
    found = [one.json()["id"] for one in (first, other, *keyless)]
    assert len(set(found)) == 4


def test_a_session_takes_an_environment_by_name(api, agent, workspace):
    place = create_environment(workspace_id=workspace.pk, fields={"name": "Box"})
    made = post(api, SESSIONS, {"agent": "Tester", "environment": "Box"})

    assert made.json()["environment"] == str(place.pk)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid"),
        ([], 400, "invalid"),
        ({"agent": "Nobody"}, 404, "not_found"),
        ({"agent": "Tester", "environment": "Nowhere"}, 404, "not_found"),
        ({"agent": "Tester", "title": "x" * 201}, 400, "invalid"),
        ({"agent": "Tester", "title": "a\0b"}, 400, "invalid"),
        ({"agent": "Tester", "session_key": "x" * 201}, 400, "invalid"),
        ({"agent": "Tester", "metadata": []}, 400, "invalid"),
        ({"agent": "Tester", "metadata": {"a": "\0"}}, 400, "invalid"),
        ({"agent": "Tester", "metadata": {"a": "x" * 64_001}}, 400, "invalid"),
    ],
)
def test_an_invalid_session_is_refused_as_a_problem(api, agent, body, status, code):
    answer = post(api, SESSIONS, body)

    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert not Session.objects.exists()


@pytest.mark.parametrize(
    "raw", [b"{", b"\xff", b'{"agent": NaN}', b'{"agent": "\\ud800"}', b"[" * 100_000]
)
def test_broken_json_is_refused_as_a_problem(api, agent, raw):
    answer = api.post(SESSIONS, raw, content_type="application/json")

    assert answer.status_code == 400
    assert answer.json()["code"] == "malformed"


def test_a_body_that_is_far_too_large_is_refused(api, agent, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = post(api, SESSIONS, {"agent": "Tester", "title": "x" * 200})

    assert answer.status_code == 413


def test_an_agent_that_was_archived_starts_no_session(api, agent):
    archive_agent(agent)

    assert post(api, SESSIONS, {"agent": str(agent.pk)}).status_code == 404


def test_another_workspace_sees_neither_the_agent_nor_the_session(foreign_api, session):
    assert post(foreign_api, SESSIONS, {"agent": str(session.agent_id)}).status_code == 404
    assert foreign_api.get(at(session)).status_code == 404
    assert ids(foreign_api.get(SESSIONS)) == []
    assert ids(foreign_api.get(SESSIONS, {"agent": str(session.agent_id)})) == []


def test_a_read_only_key_cannot_create_or_change_sessions(workspace, session):
    reader = key_client(workspace, "read")

    assert reader.get(at(session)).status_code == 200
    assert post(reader, SESSIONS, {"agent": "Tester"}).status_code == 403
    assert reader.patch(at(session), {"title": "x"}, format="json").status_code == 403
    assert reader.delete(at(session)).status_code == 403


def test_the_list_filters_by_agent_status_parent_and_words(api, agent, session):
    child = Session.objects.create(
        workspace=agent.workspace,
        agent=agent,
        agent_version=agent.current,
        parent=session,
        title="About Locomotives",
    )
    post(api, at(session, "messages/"), {"text": "The signal at platform nine is broken"})

    assert ids(api.get(SESSIONS)) == [str(child.pk), str(session.pk)]
    assert ids(api.get(SESSIONS, {"parent": str(session.pk)})) == [str(child.pk)]
    assert ids(api.get(SESSIONS, {"agent": str(agent.pk), "status": "idle"})) == ids(
        api.get(SESSIONS)
    )
    assert ids(api.get(SESSIONS, {"agent": "Tester"})) == ids(api.get(SESSIONS))
    assert ids(api.get(SESSIONS, {"status": "running"})) == []
    assert ids(api.get(SESSIONS, {"q": "signals breaking"})) == []
    assert ids(api.get(SESSIONS, {"q": "broken signals"})) == [str(session.pk)]
    assert ids(api.get(SESSIONS, {"q": "locomot"})) == [str(child.pk)]


@pytest.mark.parametrize(
    "query",
    [{"status": "no"}, {"agent": "no"}, {"q": "\0"}, {"limit": "0"}, {"cursor": "no"}],
)
def test_an_invalid_filter_is_refused(api, session, query):
    answer = api.get(SESSIONS, query)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_the_number_of_queries_does_not_grow_with_the_list(api, agent, session):
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert api.get(SESSIONS).status_code == 200
        return len(queries)

    cost()
    one = cost()
    for number in range(5):
        post(api, SESSIONS, {"agent": "Tester", "title": f"more {number}"})

    assert cost() == one


def test_the_list_is_paged_by_cursor(api, agent):
    made = [post(api, SESSIONS, {"agent": "Tester"}).json()["id"] for _ in range(5)]
    first = api.get(SESSIONS, {"limit": 3})
    second = api.get(first.json()["next"])

    assert ids(first) + ids(second) == made[::-1]
    assert second.json()["next"] is None


def test_title_metadata_and_version_can_be_changed(api, agent, session):
    change_agent(agent, {"system_prompt": "Better."})
    assert api.get(at(session)).json()["agent_version"] == 1

    change = {"title": "New", "metadata": {"a": 1}, "agent_version": 2}
    answer = api.patch(at(session), change, format="json")

    assert answer.status_code == 200
    assert answer.json() == api.get(at(session)).json()
    assert {name: answer.json()[name] for name in change} == change


def test_a_version_may_be_named_by_its_id(api, agent, session):
    second = change_agent(agent, {"system_prompt": "Better."})
    answer = api.patch(at(session), {"agent_version": str(second.pk)}, format="json")

    assert (answer.status_code, answer.json()["agent_version"]) == (200, 2)


@pytest.mark.parametrize(
    ("version", "status"),
    [(9, 404), ("01a1e681-0535-77da-9294-8ece6a449a81", 404), ("x", 400), (0, 400), (None, 400)],
)
def test_a_version_that_does_not_exist_changes_nothing(api, session, version, status):
    change = {"title": "New", "agent_version": version}

    assert api.patch(at(session), change, format="json").status_code == status
    assert api.get(at(session)).json()["title"] == ""


def test_archiving_cancels_all_runs_and_keeps_the_log(api, session):
    post(api, at(session, "messages/"), {"text": "hello"})

    assert api.delete(at(session)).status_code == 204
    assert api.delete(at(session)).status_code == 204
    shown = api.get(at(session)).json()
    assert shown["status"] == "terminated"
    assert shown["archived_at"]
    assert ids(api.get(SESSIONS)) == []
    assert ids(api.get(SESSIONS, {"archived": "true"})) == [str(session.pk)]
    assert [run.status for run in Run.objects.all()] == ["cancelled"]
    assert types(session)[0] == "user.message"
    assert types(session).count("user.interrupt") == 1
    refused = post(api, at(session, "messages/"), {"text": "still there?"})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_ended")


def test_a_key_of_an_archived_session_opens_a_new_one(api, agent):
    body = {"agent": "Tester", "session_key": "k"}
    first = post(api, SESSIONS, body).json()["id"]
    api.delete(at(first))

    assert post(api, SESSIONS, body).status_code == 201


def test_a_fork_shares_the_past_and_has_its_own_future(api, session, script):
    from agents.providers.base import TextDelta

    script([TextDelta(text="one")], [TextDelta(text="two")], [TextDelta(text="three")])
    post(api, at(session, "messages/"), {"text": "first"})
    serve(session.pk)
    answered = session.events.get(type="agent.message").seq
    post(api, at(session, "messages/"), {"text": "second"})
    serve(session.pk)
    answer = post(api, at(session, "fork/"), {"at_seq": answered})

    assert answer.status_code == 201
    forked = Session.objects.get(pk=answer.json()["id"])
    assert forked.metadata["forked_from"] == str(session.pk)
    assert types(forked) == types(session)[:answered]
    post(api, at(forked, "messages/"), {"text": "elsewhere"})
    serve(forked.pk)
    said = [m["text"] for m in api.get(at(forked, "messages/")).json()["results"]]
    assert said == ["first", "one", "elsewhere", "three"]
    assert session.events.filter(type="user.message").count() == 2


@pytest.mark.parametrize("at_seq", [-1, 99, "x", None])
def test_a_fork_at_an_invalid_seq_is_refused(api, session, at_seq):
    answer = post(api, at(session, "fork/"), {"at_seq": at_seq})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert json.loads(answer.content)["errors"] is not None
