"""Tests of approvals over REST and the command line, and of the tool ledger."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.live.frames import event_frame
from sessions_app.models import Approval, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.conftest import key_client
from tests.sessions_app.commands import agent_command, as_json
from tests.sessions_app.waiting_calls import deny, parked
from tools_app.policy.storage import agent_target, stored_policy

LIST = "/api/v1/approvals/"


def answer(client, approval: Approval, **body):
    return client.post(f"{LIST}{approval.pk}/", body, format="json")


def ids(client, **asked: object) -> list[str]:
    return [one["id"] for one in client.get(LIST, asked).json()["results"]]


def test_the_list_is_filtered_by_status_session_and_agent(api, session, principal, agent):
    first, second = parked(session, 2)
    other, _ = get_or_create_session(agent=agent)
    (third,) = parked(other)
    deny(first, principal)

    assert ids(api, status="pending") == [str(third.pk), str(second.pk)]
    assert ids(api, status="denied") == [str(first.pk)]
    assert ids(api, session=other.pk) == [str(third.pk)]
    assert len(ids(api, agent=agent.pk)) == 3
    assert len(ids(api, agent="Tester")) == 3
    assert ids(api, agent=session.pk) == []
    page = api.get(LIST, {"limit": 2}).json()
    assert [one["id"] for one in api.get(page["next"]).json()["results"]] == [str(first.pk)]


def test_the_number_of_queries_does_not_grow_with_the_list(api, session):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert api.get(LIST).status_code == 200
        return len(seen)

    parked(session, 1)
    api.get(LIST)
    few = queries()
    parked(session, 20)
    assert queries() == few


def test_an_approval_shows_the_call_and_the_reason_for_asking(api, session, agent):
    (asked,) = parked(session)

    shown = api.get(f"{LIST}{asked.pk}/").json()

    assert shown["title"] == "Run a command: echo 0"
    assert (shown["tool"], shown["input"]) == ("exec", {"command": "echo 0"})
    assert (shown["reason"], shown["covers"]) == (
        "default: exec asks first",
        "exactly this command",
    )
    assert (shown["agent"], shown["agent_name"]) == (str(agent.pk), "Tester")
    assert (shown["status"], shown["resolved_by"]) == ("pending", None)


def test_a_read_only_key_sees_no_secrets_and_cannot_answer(api, workspace, session):
    (asked,) = parked(session)
    secret = {"command": "curl -H 'authorization: Bearer abcdefghijkl'"}
    Approval.objects.filter(pk=asked.pk).update(input=secret, title=secret["command"])
    reader = key_client(workspace, "read")

    assert "abcdefghijkl" not in reader.get(LIST).text
    assert "abcdefghijkl" in api.get(LIST).text
    assert answer(reader, asked, decision="deny").status_code == 403


def test_a_second_answer_is_refused_and_shows_the_first(api, session, owner):
    (asked,) = parked(session)

    first = answer(api, asked, decision="allow", scope="session", note="fine")
    second = answer(api, asked, decision="deny")

    shown = first.json()
    assert (first.status_code, shown["status"], shown["scope"]) == (200, "allowed", "session")
    assert (shown["rule"], shown["note"]) == ("exec(echo 0)", "fine")
    assert shown["resolved_by"] == str(owner.pk)
    assert shown["resolved_by_name"].startswith("key ")
    assert (second.status_code, second.json()["code"]) == (409, "nothing_to_answer")
    assert "allowed this for this session at" in second.json()["detail"]
    assert second.json()["answer"]["scope"] == "session"
    (said,) = SessionEvent.objects.filter(session=session, type="user.tool_confirmation")
    assert said.processed_at
    assert event_frame(said)["tool_name"] == "exec"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "maybe"},
        {"decision": "allow", "scope": "forever"},
        {"decision": "allow", "input": []},
        {"decision": "allow", "input": {"comand": "ls"}},
        {"decision": "deny", "scope": "always"},
        {"decision": "deny", "note": "x" * 2001},
    ],
)
def test_an_invalid_answer_is_refused_and_the_approval_stays_pending(api, session, body):
    (asked,) = parked(session)

    assert answer(api, asked, **body).status_code == 400

    asked.refresh_from_db()
    assert asked.status == "pending"


def test_allowing_always_over_rest_needs_an_admin_key(api, workspace, session):
    (asked,) = parked(session)

    assert (
        answer(key_client(workspace, "run"), asked, decision="allow", scope="always").status_code
        == 403
    )
    assert answer(api, asked, decision="allow", scope="always").status_code == 200

    assert stored_policy(agent_target(session.agent_id)).approved_tools == ["exec(echo 0)"]


def test_a_repeated_request_gets_the_first_response(api, session):
    (asked,) = parked(session)
    sent = [
        api.post(
            f"{LIST}{asked.pk}/",
            {"decision": "allow"},
            format="json",
            headers={"Idempotency-Key": "one"},
        )
        for _ in range(2)
    ]

    assert [one.status_code for one in sent] == [200, 200]
    assert sent[0].json() == sent[1].json()


def test_the_command_line_lists_and_answers_approvals(session):
    first, _ = parked(session, 2)
    call = first.execution.tool_use_id

    assert (
        agent_command("approvals", "list")
        .splitlines()[0]
        .endswith("pending  Run a command: echo 0")
    )
    confirm = ("session", "confirm-tool", "--session", session.pk, "--request", call)
    agent_command(*confirm, "--decision", "allow", "--scope", "session")

    (told,) = as_json("approvals", "list", "--status", "allowed", "--session", session.pk)
    assert (told["id"], told["scope"], told["resolved_by"]) == (
        str(first.pk),
        "session",
        "the command line",
    )


@pytest.fixture
def unknown_call(session) -> ToolExecution:
    parked(session)
    secret = {"command": "login --password=hunter2"}
    ToolExecution.objects.update(state="unknown", input=secret, error="token=abc123")
    type(session).objects.filter(pk=session.pk).update(status="idle")
    return ToolExecution.objects.get()


def test_the_ledger_is_filtered_and_masks_secrets(api, unknown_call, session, agent):
    ledger = "/api/v1/tools/executions/"
    for asked in (
        {"tool": "exec"},
        {"agent": agent.pk},
        {"state": "unknown"},
        {"session": session.pk},
    ):
        assert [one["id"] for one in api.get(ledger, asked).json()["results"]] == [
            str(unknown_call.pk)
        ]
    assert api.get(ledger, {"tool": "read"}).json()["results"] == []
    assert api.get(ledger, {"agent": session.pk}).json()["results"] == []
    shown = api.get(f"{ledger}{unknown_call.pk}/").json()
    assert shown["input"] == {"command": "login --password=[removed]"}
    assert shown["error"] == "token=[removed]"


def test_an_unknown_call_is_verified_once(api, unknown_call):
    path = f"/api/v1/tools/executions/{unknown_call.pk}/"
    body = {"took_effect": True, "output": {"rows": 3}, "note": "seen"}

    first = api.post(f"{path}verify/", body, format="json")
    again = api.post(f"{path}retry/", {}, format="json")

    assert (first.status_code, first.json()["state"]) == (200, "completed")
    assert first.json()["output"] == {"rows": 3}
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


def test_an_unknown_call_is_retried_once(api, unknown_call, workspace):
    path = f"/api/v1/tools/executions/{unknown_call.pk}/"
    assert key_client(workspace, "read").post(f"{path}retry/").status_code == 403

    first = api.post(f"{path}retry/", {}, format="json")
    again = api.post(f"{path}verify/", {"took_effect": False}, format="json")

    assert (first.status_code, first.json()["state"]) == (202, "requested")
    assert first.json()["run_id"]
    assert again.status_code == 409
    assert api.post(f"{path}verify/", {}, format="json").status_code == 400


def test_the_list_of_a_session_can_include_its_sub_agents(api, session, agent):
    child, _ = get_or_create_session(agent=agent, parent=session)
    grandchild, _ = get_or_create_session(agent=agent, parent=child)
    stranger, _ = get_or_create_session(agent=agent)
    (mine,), (its,), _ = parked(session), parked(grandchild), parked(stranger)

    assert ids(api, session=session.pk) == [str(mine.pk)]
    assert ids(api, session=session.pk, tree="1") == [str(its.pk), str(mine.pk)]
    assert ids(api, session=child.pk, tree="1") == [str(its.pk)]
