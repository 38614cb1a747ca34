"""Tests of the recipes in docs/extending.md, run inside the plugin that the recipes make.

`test_extending.py` copies this file into that plugin; it is not collected here.
"""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.core.management import call_command

from agents.canvas.graph import Graph, validate
from agents.canvas.revisions import Author, publish, save
from agents.definitions import create_agent
from agents.environments import create_environment
from agents.providers.keys import provider_for
from config.routing import socket_router
from core.exceptions import InvalidFields
from core.ids import uuid7
from core.plugins import plugins
from memory.embeddings import chosen_embedder, move
from orchestrator.engine.approvals import answer_approval
from orchestrator.engine.lifecycle import start_workflow
from sessions_app.accept import accept_event
from sessions_app.context.taint import is_tainted, is_untrusted_output
from sessions_app.models import Run, SessionEvent, ToolExecution
from sessions_app.outcomes.criteria import read_outcome
from sessions_app.sessions import get_or_create_session
from tenants.access import principal_of_user
from tenants.keys import issue_key
from tenants.models import Membership
from tenants.sockets import SocketIdentity
from tests.conftest import add_member
from tests.orchestrator.conftest import now, serve
from tests.sessions_app.conftest import newest
from tests.sessions_app.conftest import serve as serve_lane
from tools_app.exceptions import ToolFailed
from tools_app.files import SessionFolder
from tools_app.outflow import Exposure
from tools_app.policy.effective import effective_policy
from tools_app.policy.storage import agent_target, save_policy
from tools_app.registry import registry
from tools_app.sandbox.provisioning import provision
from tools_app.workspace_tools import tools_of_workspace

pytestmark = pytest.mark.django_db
CONTEXT = SimpleNamespace(check_stopped=lambda: None)


@pytest.fixture
def agent(workspace, owner):
    fields = {"name": "Walker", "provider": "acme_echo", "model": "echo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)


@pytest.fixture
def session(agent, owner):
    made, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
    return made


def converse(session, workspace, owner, text):
    principal = principal_of_user(owner, workspace.pk)
    accept_event(principal, session.pk, type=SessionEvent.Type.USER_MESSAGE, payload={"text": text})
    serve_lane(session.pk)


def test_a_tool(agent, session, api):
    tool = registry["acme_open_ticket"]
    policy = effective_policy(session.agent_version, session.pk)

    assert is_untrusted_output("acme_open_ticket", "managed", "{}")
    assert not is_untrusted_output("acme_greet", "managed", "Hello.")
    assert tool.call({"title": "It rains"}, CONTEXT)["ticket"] == "T-1"
    with pytest.raises(ToolFailed, match="capitals"):
        tool.call({"title": "IT RAINS"}, CONTEXT)
    assert tool.leaves({}, Exposure(source=lambda but: "a page")) == "send data over the network"
    assert policy["acme_open_ticket"].decision == "ask"
    assert policy["acme_greet"].decision == "allow"
    listed = {one["name"]: one for one in api.get("/api/v1/tools/").json()["results"]}
    assert listed["acme_greet"]["category"] == "acme"


@pytest.mark.parametrize(("name", "taints"), [("acme_open_ticket", True), ("acme_greet", False)])
def test_a_tool_that_may_return_what_strangers_wrote_taints_its_session(
    session, workspace, owner, name, taints
):
    converse(session, workspace, owner, "Hello")
    ToolExecution.objects.create(
        workspace_id=session.workspace_id,
        session=session,
        run=Run.objects.get(session=session),
        tool_use_id="c1",
        name=name,
        ownership="managed",
        state="completed",
        input={},
    )

    assert is_tainted(session.pk) is taints


def test_a_rule_about_its_category(agent, session, browser_client):
    save_policy(agent_target(agent), {"profile": "coding", "denied_tools": ["group:acme"]})

    policy = effective_policy(session.agent_version, session.pk)

    assert policy["acme_greet"].decision == "deny"
    page = browser_client.get(f"/policies/agent/{agent.pk}/").content.decode()
    assert 'id="group-acme"' in page


def test_a_workflow(workspace, owner):
    params = {"names": ["Ada", "Bob"]}
    made, _ = start_workflow(workspace.pk, "acme-rounds", params, created_by_id=owner.pk)
    serve()

    assert now(made).output == ["Hello, Ada.", "Hello, Bob."]


def test_a_page(browser_client, client, workspace):
    page = browser_client.get("/plugins/acme/report/")
    viewer = add_member(workspace, Membership.Role.VIEWER)
    client.force_login(viewer)

    assert "All is well." in page.content.decode()
    assert 'href="/plugins/acme/report/"' in page.content.decode()
    assert client.get("/plugins/acme/report/").status_code == 403
    assert 'href="/plugins/acme/report/"' not in client.get("/").content.decode()


def test_a_rest_route(api, client):
    assert api.get("/plugins/acme/greetings/Ada/").json() == {"text": "Hello, Ada."}
    refused = client.get("/plugins/acme/greetings/Ada/")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    described = client.get("/api/schema/?format=json").json()
    operation = described["paths"]["/plugins/acme/greetings/{name}/"]["get"]
    assert operation["operationId"] == "acme_greeting"
    assert "AcmeGreeting" in described["components"]["schemas"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_socket(workspace, owner, is_known):
    from asgiref.sync import async_to_sync

    issued = issue_key(workspace_id=workspace.pk, name="s", scope="read", created_by=owner)
    secret = issued.secret if is_known else "wrong"

    async def receive():
        socket = WebsocketCommunicator(
            SocketIdentity(socket_router()),
            "/ws/plugins/acme/ticks/",
            headers=[(b"x-api-key", secret.encode())],
        )
        await socket.connect()
        got = await socket.receive_output()
        await socket.disconnect()
        return got

    got = async_to_sync(receive)()

    assert got.get("text") == ('{"type": "tick", "number": 0}' if is_known else None)
    assert got.get("code") == (None if is_known else 4401)


def test_a_canvas_node(agent, owner, workspace):
    nodes = [
        {"id": "start", "type": "trigger", "config": {}},
        {"id": "ticket", "type": "acme_ticket", "config": {"title": "{{input.what}}", "urgent": 1}},
        {"id": "end", "type": "output", "config": {}},
    ]
    edges = [
        {"source": "start", "target": "ticket", "handle": ""},
        {"source": "ticket", "target": "end", "handle": ""},
    ]
    save(agent, nodes=nodes, edges=edges, revision=0, author=Author())
    publish(agent, tools=tools_of_workspace(workspace.pk))
    params = {"agent": str(agent.pk), "input": {"what": "Rain"}}
    made, _ = start_workflow(workspace.pk, "canvas", params, created_by_id=owner.pk)

    serve()
    assert now(made).status == "waiting_approval"
    answer_approval(now(made), principal_of_user(owner, workspace.pk), allow=True)
    serve()

    assert now(made).output["output"] == {"ticket": "T-1", "title": "Urgent: Rain"}


def test_a_canvas_node_with_a_wrong_configuration():
    node = {"id": "ticket", "type": "acme_ticket", "config": {"urgent": "perhaps", "x": 1}}

    found = validate(Graph.model_validate({"nodes": [node], "edges": []}))

    messages = [issue.message for issue in found if issue.node == "ticket"]
    assert any("needs title" in message for message in messages)
    assert any(message.startswith("urgent:") for message in messages)
    assert any(message.startswith("x:") for message in messages)


def test_a_model_provider(session, workspace, owner):
    converse(session, workspace, owner, "Hello there")

    answer = newest(session, SessionEvent.Type.AGENT_MESSAGE)
    assert answer.payload["text"] == "You said: Hello there"
    assert provider_for(workspace.pk, "acme_echo").connection.api_key is None


def test_an_embedding_model(workspace):
    move(workspace.pk, "acme_letters")

    assert chosen_embedder(workspace.pk).name == "acme_letters"


def test_a_kind_of_sandbox(workspace, api):
    fields = {"name": "dry", "kind": "acme_dry"}
    environment = create_environment(workspace_id=workspace.pk, fields=fields)
    folder = SessionFolder(workspace_id=workspace.pk, session_id=uuid7())

    result = provision(environment, folder).execute("rm -r /", seconds=1)

    assert result.output == "would run: rm -r /\n"
    listed = api.get("/api/v1/environments/").json()["results"]
    assert "acme_dry" in {one["kind"] for one in listed}
    with pytest.raises(InvalidFields, match="acme_dry"):
        create_environment(workspace_id=workspace.pk, fields={"name": "x", "kind": "unknown"})


def test_a_grader(session, workspace, owner):
    session.outcome = read_outcome(
        {"statement": "Speak.", "criteria": ["sesame"], "grader": {"provider": "acme_contains"}}
    )
    session.save(update_fields=["outcome"])

    converse(session, workspace, owner, "open sesame")

    verdict = newest(session, SessionEvent.Type.OUTCOME_JUDGED).payload
    assert (verdict["status"], verdict["grader"]["provider"]) == ("met", "acme_contains")


def test_settings():
    assert settings.ACME_ROWS == 50
    assert settings.ACME_GREETING == "Hello"


def test_a_table(workspace):
    from acme.models import Ticket

    Ticket.objects.create(workspace=workspace, title="Rain")

    assert Ticket.objects.for_workspace(workspace.pk).get().title == "Rain"


def test_the_command_lists_everything_that_the_plugin_has_brought():
    out = StringIO()
    call_command("plugins", stdout=out)

    kinds = ("tool", "workflow", "page", "route", "socket", "node", "provider", "embedder")
    for kind in (*kinds, "sandbox", "grader", "setting"):
        assert f"  {kind}: " in out.getvalue(), kind
    assert plugins["acme"].error == ""
