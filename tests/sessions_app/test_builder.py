"""Tests of building an agent over REST with the demo provider, from first message to a run."""

from __future__ import annotations

from uuid import UUID

import pytest

from agents import drafts
from agents.canvas import revisions
from agents.models import Agent, DraftChange
from sessions_app.builder import get_builder
from sessions_app.models import Session
from tenants.keys import revoke_key
from tenants.models import ApiKey
from tests.conftest import add_member, key_client
from tests.factories import schedule as make_schedule
from tests.sessions_app.conftest import newest, serve
from tools_app.policy.effective import effective_policy
from tools_app.policy.storage import find_target, save_policy, stored_policy

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr("agents.providers.demo.provider.DemoProvider.DELAY_SECONDS", 0)


def tell_builder(api, message, agent=None):
    """Send the builder a message and serve its run."""
    body = {"message": message} | ({"agent": agent} if agent else {})
    asked = api.post("/api/v1/builder/", body, format="json")
    assert asked.status_code == 202, asked.json()
    serve(UUID(asked.json()["session_id"]))
    return asked.json()


def draft(api, agent):
    return api.get(f"/api/v1/agents/{agent}/draft/").json()


def changes(api, agent):
    return api.get(f"/api/v1/agents/{agent}/draft/changes/").json()["results"]


def confirm(api, session_id):
    session = Session.objects.get(pk=session_id)
    call = newest(session, "agent.tool_use").payload
    assert call["name"] == "builder_publish"
    answer = {"tool_use_id": call["tool_use_id"], "decision": "allow"}
    body = {"type": "user.tool_confirmation", "payload": answer}
    assert (
        api.post(f"/api/v1/sessions/{session_id}/events/", body, format="json").status_code == 202
    )
    serve(UUID(session_id))


def test_an_agent_is_built_by_chat_published_and_run(api, workspace):
    made = tell_builder(api, "Make an agent that answers billing questions")
    agent, fields = made["agent"], draft(api, made["agent"])["fields"]
    assert fields["name"] == "Billing helper"
    assert "answers billing questions" in fields["system_prompt"]
    assert {one["part"] for one in changes(api, agent)} == {"system_prompt", "name", "description"}
    assert all(one["author"]["session_id"] == made["session_id"] for one in changes(api, agent))

    tell_builder(api, "Let it read files but ask before running commands. Call it Bill", agent)
    proposed = draft(api, agent)
    assert proposed["fields"]["name"] == "Bill"
    assert proposed["policy"]["approved_tools"] == ["read", "list_directory"]
    assert proposed["policy"]["ask_tools"] == ["exec"]
    assert stored_policy(find_target(workspace.pk, "agent", agent)).revision == 0

    rename = next(one for one in changes(api, agent) if one["after"] == "Bill")
    undone = api.post(f"/api/v1/agents/{agent}/draft/changes/{rename['id']}/undo/")
    assert undone.json()["fields"]["name"] == "Billing helper"
    assert rename["id"] not in [one["id"] for one in changes(api, agent)]

    run = {"agent": agent, "session_key": "k", "message": "say hello"}
    assert api.post("/api/v1/runtime/", run, format="json").status_code == 404
    tell_builder(api, "Add a step that checks the invoice and publish it", agent)
    assert draft(api, agent)["version"] == 0
    confirm(api, made["session_id"])
    assert (draft(api, agent)["version"], draft(api, agent)["is_empty"]) == (1, True)
    assert changes(api, agent) == []
    assert stored_policy(find_target(workspace.pk, "agent", agent)).ask_tools == ["exec"]
    assert (
        revisions.published_revision(Agent.objects.get(pk=agent)).nodes[1]["name"]
        == "Checks the invoice"
    )

    begun = api.post("/api/v1/runtime/", run, format="json").json()
    serve(UUID(begun["session_id"]))
    ran = Session.objects.get(pk=begun["session_id"])
    assert (ran.agent_version.number, ran.agent_version.name) == (1, "Billing helper")
    assert newest(ran, "agent.message").payload["text"] == "hello"


def test_a_published_agent_keeps_its_version_until_the_draft_is_published(api, workspace):
    body = {"name": "Tester", "provider": "demo", "model": "demo"}
    agent = api.post("/api/v1/agents/", body, format="json").json()["id"]
    tell_builder(api, "Call it Other", agent)

    assert api.get(f"/api/v1/agents/{agent}/").json()["name"] == "Tester"
    assert draft(api, agent)["changed"] == ["name"]
    published = api.post(f"/api/v1/agents/{agent}/draft/publish/", {"revision": 1}, format="json")
    assert (published.json()["version"], published.json()["name"]) == (2, "Other")
    again = api.post(f"/api/v1/agents/{agent}/draft/publish/", {}, format="json")
    assert again.status_code == 409


def test_a_workspace_has_one_builder_which_is_offered_only_its_own_tools(workspace):
    first, second = get_builder(workspace.pk), get_builder(workspace.pk)
    assert first.pk == second.pk
    policy = effective_policy(first.current)
    assert policy["builder_publish"].decision == "ask"
    offered = set(policy.offered())
    assert "exec" not in offered
    assert {"builder_update_agent", "add_node"} <= offered


def test_a_run_key_cannot_build_through_other_endpoints(api, workspace):
    made = tell_builder(api, "Make an agent that counts boats")
    runner = key_client(workspace, "run")
    at = f"/api/v1/sessions/{made['session_id']}/messages/"
    assert runner.post(at, {"text": "Call it Mine"}, format="json").status_code == 403
    body = {"message": "Call it Mine", "agent": made["agent"]}
    assert runner.post("/api/v1/builder/", body, format="json").status_code == 403
    later = {"name": "x", "kind": "interval", "interval_seconds": 60, "message": "Call it Mine"}
    planned = later | {"session": made["session_id"]}
    assert runner.post("/api/v1/schedules/", planned, format="json").status_code == 400
    other = f"/api/v1/schedules/{make_schedule(workspace).pk}/"
    moved = runner.patch(other, {"session": made["session_id"]}, format="json")
    assert moved.status_code == 400
    assert draft(api, made["agent"])["fields"]["name"] == "Boats helper"


def test_a_message_of_a_revoked_key_builds_nothing(api, workspace):
    made = tell_builder(api, "Make an agent that counts boats")
    program = key_client(workspace, "admin")
    body = {"message": "Call it Mine", "agent": made["agent"]}
    assert program.post("/api/v1/builder/", body, format="json").status_code == 202
    newest_key = ApiKey.objects.latest("created_at")

    revoke_key(workspace_id=workspace.pk, key_id=newest_key.pk)
    serve(UUID(made["session_id"]))

    assert draft(api, made["agent"])["fields"]["name"] == "Boats helper"


def test_a_run_key_cannot_answer_a_builders_approval(api, workspace):
    made = tell_builder(api, "Make an agent that counts boats")
    tell_builder(api, "Publish it", made["agent"])
    (asked,) = api.get("/api/v1/approvals/?status=pending").json()["results"]
    runner = key_client(workspace, "run")
    at = f"/api/v1/approvals/{asked['id']}/"

    assert runner.post(at, {"decision": "allow"}, format="json").status_code == 403
    assert api.post(at, {"decision": "allow"}, format="json").status_code == 200


def test_other_agents_can_neither_see_nor_call_the_builders_tools(
    api, workspace, agent, session, principal
):
    from tests.sessions_app.stage import say

    save_policy(find_target(workspace.pk, "agent", agent.pk), {"profile": "full"})
    say(session, principal, 'use the tool builder_update_agent with {"name": "Mine"}')
    serve(session.pk)
    assert "may not use" in newest(session, "agent.message").payload["text"]
    assert not DraftChange.objects.exists()
    parts = api.get(f"/api/v1/sessions/{session.pk}/context/").json()["parts"]
    (tools,) = (part["content"] for part in parts if part["name"] == "tools")
    assert [one["name"] for one in tools if one["name"].startswith("builder_")] == []


def test_publishing_a_looser_policy_needs_the_right_to_loosen_it(api, workspace):
    agent = tell_builder(api, "Make an agent that counts boats")["agent"]
    patched = api.patch(
        f"/api/v1/agents/{agent}/draft/",
        {"policy": {"approved_tools": ["exec(*)"]}},
        format="json",
    )
    assert patched.json()["policy"]["approved_tools"] == ["exec(*)"]
    from django.test import Client

    builder = Client()
    builder.force_login(add_member(workspace, "builder"))
    at = f"/api/v1/agents/{agent}/draft/publish/"
    refused = builder.post(at, {}, content_type="application/json")
    assert refused.status_code == 403
    assert Agent.objects.get(pk=agent).is_draft
    assert api.post(at, {}, format="json").status_code == 200


def test_a_preview_runs_the_draft_under_its_policy(api, workspace):
    agent = tell_builder(api, "Make an agent that counts boats. Never let it read files")["agent"]
    made = api.post(f"/api/v1/agents/{agent}/draft/preview/", {}, format="json")
    session = Session.objects.get(pk=made.json()["session_id"])
    assert (session.agent_version.number, session.agent_version.name) == (0, "Boats helper")
    assert effective_policy(session.agent_version, session.pk)["read"].decision == "deny"
    tell_builder(api, "Call it Counter", agent)
    again = api.post(f"/api/v1/agents/{agent}/draft/preview/", {}, format="json").json()
    session.refresh_from_db()
    assert (again["session_id"], session.agent_version.name) == (str(session.pk), "Counter")
    assert api.get(f"/api/v1/agents/{agent}/versions/").json()["results"] == []


def test_a_stranger_cannot_see_or_build_an_agent(api, foreign_api):
    made = tell_builder(api, "Make an agent that counts boats")
    body = {"message": "Call it Mine", "agent": made["agent"]}
    assert foreign_api.post("/api/v1/builder/", body, format="json").status_code == 404
    assert foreign_api.get(f"/api/v1/agents/{made['agent']}/draft/").status_code == 404
    assert drafts.read(Agent.objects.get(pk=made["agent"])).fields["name"] == "Boats helper"
