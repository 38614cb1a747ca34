"""Tests of policies over REST: every layer, history, explanations and the resulting tools."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from agents.definitions import create_agent
from agents.environments import default_environment
from agents.models import Agent
from sessions_app.models import Session
from sessions_app.sessions import get_or_create_session
from tenants.models import Workspace
from tests.conftest import add_member, key_client
from tools_app.api.policies import PolicyWordsSerializer
from tools_app.policy.storage import PolicyInput
from tools_app.registry import registry

EMPTY_POLICY: dict[str, Any] = {
    "profile": None,
    "allowed_tools": [],
    "approved_tools": [],
    "denied_tools": [],
    "ask_tools": [],
    "max_tool_calls_per_turn": None,
    "peers": [],
}


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return create_agent(workspace_id=workspace.pk, fields={"name": "Scout", "provider": "demo"})


@pytest.fixture
def session(agent: Agent) -> Session:
    return get_or_create_session(agent=agent)[0]


@pytest.fixture
def urls(agent: Agent, session: Session, workspace: Workspace) -> dict[str, str]:
    """Return the URL of each layer's policy."""
    environment = default_environment(workspace.pk)
    return {
        "workspace": "/api/v1/workspace/policy/",
        "agent": f"/api/v1/agents/{agent.pk}/policy/",
        "environment": f"/api/v1/environments/{environment.pk}/policy/",
        "session": f"/api/v1/sessions/{session.pk}/policy/",
    }


@pytest.fixture
def builder_browser(workspace: Workspace) -> APIClient:
    client = APIClient()
    client.force_login(add_member(workspace, "builder"))
    return client


def put(api: APIClient, path: str, **fields: Any) -> Any:
    return api.put(path, fields, format="json")


def simulate(api: APIClient, agent: Agent, tool: str, **input: Any) -> dict[str, Any]:
    path = f"/api/v1/agents/{agent.pk}/policy/explain/"
    return api.post(path, {"tool": tool, "input": input}, format="json").json()


LAYERS = pytest.mark.parametrize("layer", ["workspace", "agent", "environment", "session"])


def test_the_serializer_matches_the_input_model():
    assert set(PolicyWordsSerializer().get_fields()) == set(PolicyInput.model_fields)


@LAYERS
def test_each_layer_has_the_same_shape(api, urls, layer, owner):
    default = api.get(urls[layer]).json()
    assert default == EMPTY_POLICY | {
        "profile": "coding" if layer == "agent" else None,
        "layer": layer,
        "revision": 0,
        "created_by": None,
        "created_at": None,
    }

    saved = put(api, urls[layer], profile="full", denied_tools=["exec"], max_tool_calls_per_turn=4)

    assert saved.status_code == 200
    assert api.get(urls[layer]).json() == saved.json()
    assert saved.json() | {"created_at": None} == default | {
        "profile": "full",
        "denied_tools": ["exec"],
        "max_tool_calls_per_turn": 4,
        "revision": 1,
        "created_by": str(owner.pk),
    }


@LAYERS
def test_each_layer_has_a_history_that_can_be_restored(api, urls, layer):
    put(api, urls[layer], denied_tools=["write"])
    put(api, urls[layer], denied_tools=["edit"])

    back = api.post(f"{urls[layer]}revert/", {"revision": 1}, format="json").json()
    history = api.get(f"{urls[layer]}history/").json()["results"]

    assert (back["denied_tools"], back["revision"]) == (["write"], 3)
    assert [(r["revision"], r["denied_tools"], r["reverts_to"]) for r in history] == [
        (3, ["write"], 1),
        (2, ["edit"], None),
        (1, ["write"], None),
    ]
    assert all(r["author"].startswith("key ") and r["created_by"] for r in history)
    assert api.post(f"{urls[layer]}revert/", {"revision": 8}, format="json").status_code == 404
    assert api.post(f"{urls[layer]}revert/", {}, format="json").status_code == 400


@LAYERS
def test_each_layer_decides_and_is_named_in_the_explanation(api, agent, session, urls, layer):
    put(api, urls[layer], ask_tools=["read"])

    path = f"/api/v1/sessions/{session.pk}/policy/explain/"
    explanation = api.get(path, {"tool": "read"}).json()

    assert (explanation["decision"], explanation["layer"], explanation["rule"]) == (
        "ask",
        layer,
        "asked read",
    )
    assert {"layer": layer, "decision": "ask", "rule": "asked read"} in explanation["chain"]
    of_agent = api.get(f"{urls['agent']}explain/", {"tool": "read"}).json()
    assert of_agent["decision"] == ("allow" if layer == "session" else "ask")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"allowed_tools": ["raed"]}, "allowed_tools"),
        ({"profile": "superuser"}, "profile"),
        ({"max_tool_calls_per_turn": "many"}, "max_tool_calls_per_turn"),
        ({"denied": ["exec"]}, "denied"),
    ],
)
def test_an_invalid_field_is_named_in_the_error(api, urls, body, field):
    answer = put(api, urls["agent"], **body)

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert field in {error["field"] for error in answer.json()["errors"]}
    assert api.get(urls["agent"]).json()["revision"] == 0


def test_an_unknown_tool_in_an_allow_list_is_refused(api, urls):
    answer = put(api, urls["agent"], allowed_tools=["read", "fly_to_the_moon"])

    assert answer.status_code == 400
    assert "fly_to_the_moon" in answer.json()["detail"]


@pytest.mark.parametrize("body", ["[]", "3", "{", '{"expected_revision": "x"}'])
def test_an_invalid_body_is_refused(api, urls, body):
    answer = api.put(urls["agent"], body, content_type="application/json")

    assert answer.status_code == 400


def test_a_change_on_top_of_an_older_revision_is_a_conflict(api, urls):
    put(api, urls["agent"], profile="full", expected_revision=0)

    assert put(api, urls["agent"], profile="minimal", expected_revision=0).status_code == 409


def test_only_admins_can_change_the_workspace_policy(api, urls, builder_browser):
    assert put(builder_browser, urls["workspace"], denied_tools=["exec"]).status_code == 403
    assert put(api, urls["workspace"], denied_tools=["exec"]).status_code == 200
    assert builder_browser.get(urls["workspace"]).json()["denied_tools"] == ["exec"]


def test_builders_can_narrow_a_policy_and_only_admins_can_allow_commands(
    api, urls, builder_browser
):
    assert put(builder_browser, urls["agent"], denied_tools=["write"]).status_code == 200

    refused = put(builder_browser, urls["agent"], approved_tools=["exec"])

    assert refused.status_code == 403
    assert "exec" in refused.json()["detail"]
    assert put(api, urls["agent"], approved_tools=["exec"]).status_code == 200
    assert put(builder_browser, urls["agent"]).status_code == 200
    back = builder_browser.post(f"{urls['agent']}revert/", {"revision": 2}, format="json")
    assert back.status_code == 403


def test_a_run_key_can_only_narrow_its_session(workspace, urls):
    runner = key_client(workspace, "run")

    assert put(runner, urls["session"], denied_tools=["exec"]).status_code == 200
    assert put(runner, urls["agent"], denied_tools=["exec"]).status_code == 403
    assert put(runner, urls["environment"], denied_tools=["exec"]).status_code == 403
    assert put(runner, urls["session"]).status_code == 403, "only a builder can widen it again"


def test_a_session_cannot_widen_its_agents_policy(api, urls, session):
    put(api, urls["agent"], profile="minimal", ask_tools=["read"])
    put(api, urls["session"], profile="full", allowed_tools=["*"])

    everything = api.get(f"{urls['session']}explain/").json()["results"]

    decisions = {one["tool"]: one["decision"] for one in everything}
    assert set(decisions) == set(registry)
    assert (decisions["read"], decisions["write"], decisions["exec"]) == ("ask", "deny", "deny")


def test_a_reader_can_view_and_simulate_but_not_change(workspace, urls, agent):
    reader = key_client(workspace, "read")

    assert reader.get(urls["agent"]).status_code == 200
    assert reader.get(f"{urls['agent']}history/").status_code == 200
    assert simulate(reader, agent, "read")["decision"] == "allow"
    assert put(reader, urls["agent"]).status_code == 403


def test_a_call_is_simulated_with_its_arguments(api, urls, agent):
    put(api, urls["agent"], allowed_tools=["exec(git status*)"], denied_tools=["exec(rm *)"])

    free = simulate(api, agent, "exec", command="git status --short")
    asks = simulate(api, agent, "exec", command="git push")
    denied = simulate(api, agent, "exec", command="git status; rm -rf x")

    assert (free["decision"], free["rule"]) == ("allow", "allowed exec(git status*)")
    assert (asks["decision"], asks["rule"]) == ("ask", "outside exec(git status*)")
    assert (denied["decision"], denied["decided_by"]) == ("deny", "agent: denied exec(rm *)")
    assert simulate(api, agent, "nope") == {
        "tool": "nope",
        "decision": "deny",
        "layer": "default",
        "rule": "no tool has this name",
        "decided_by": "no tool has this name",
        "chain": [],
    }


def test_an_agents_tools_exclude_denied_ones(api, urls, agent):
    put(api, urls["agent"], profile="coding", denied_tools=["group:web"], ask_tools=["write"])

    found = api.get(f"/api/v1/agents/{agent.pk}/tools/").json()["results"]

    tools = {one["name"]: one for one in found}
    assert "web_fetch" not in tools
    assert (tools["write"]["decision"], tools["write"]["decided_by"]) == (
        "ask",
        "agent: asked write",
    )
    assert tools["exec"]["decision"] == "ask"
    assert tools["read"]["input_schema"]["required"] == ["path"]


def test_all_tools_are_listed_with_their_properties(api):
    tools = {one["name"]: one for one in api.get("/api/v1/tools/").json()["results"]}

    assert set(tools) == set(registry)
    facts = ("category", "ownership", "permission", "effects", "read_only", "idempotent")
    assert [tools["exec"][fact] for fact in facts] == [
        *("exec", "managed", "always_ask", ["commands", "files"], False, False)
    ]
    assert [tools["read"][fact] for fact in facts] == [
        *("filesystem", "managed", "always_allow", [], True, True)
    ]


@pytest.fixture
def clerk(workspace: Workspace) -> Agent:
    return create_agent(workspace_id=workspace.pk, fields={"name": "Clerk", "provider": "demo"})


def test_only_admins_can_name_peers_and_builders_can_remove_them(api, urls, builder_browser, clerk):
    peers = [{"agent": str(clerk.pk), "may": ["send", "list"]}]
    refused = put(builder_browser, urls["agent"], peers=peers)
    assert refused.status_code == 403
    assert "sessions of other agents takes the right to admin" in refused.json()["detail"]

    saved = put(api, urls["agent"], peers=peers)
    assert saved.json()["peers"] == [{"agent": str(clerk.pk), "may": ["list", "send"]}]
    wider = [{"agent": str(clerk.pk), "may": ["list", "read", "send"]}]
    assert put(builder_browser, urls["agent"], peers=wider).status_code == 403
    narrower = [{"agent": str(clerk.pk), "may": ["list"]}]
    assert put(builder_browser, urls["agent"], peers=narrower).status_code == 200
    assert put(builder_browser, urls["agent"]).json()["peers"] == []


@pytest.mark.parametrize(
    "may", [[], ["write"], "send", None], ids=["none", "unknown", "text", "null"]
)
def test_a_peer_has_known_rights(api, urls, clerk, may):
    refused = put(api, urls["agent"], peers=[{"agent": str(clerk.pk), "may": may}])

    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"].startswith("peers")


def test_peers_are_agents_of_the_workspace_each_named_once(api, urls, clerk, foreign_workspace):
    fields = {"name": "Theirs", "provider": "demo"}
    foreign = create_agent(workspace_id=foreign_workspace.pk, fields=fields)
    for ids in ([foreign.pk], [clerk.pk, clerk.pk]):
        peers = [{"agent": str(one), "may": ["list"]} for one in ids]
        assert put(api, urls["agent"], peers=peers).status_code == 400


@pytest.mark.parametrize("layer", ["workspace", "environment", "session"])
def test_only_the_policy_of_an_agent_has_peers(api, urls, clerk, layer):
    refused = put(api, urls[layer], peers=[{"agent": str(clerk.pk), "may": ["list"]}])

    assert refused.status_code == 400
    assert "Only the policy of an agent" in refused.json()["detail"]
