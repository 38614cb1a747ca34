"""Tests against a real MCP server: adding it, discovery, calls, stops and outages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.definitions import create_agent
from tenants import vault
from tests.conftest import key_client
from tests.wire.mcp_process import McpProcess, free_port, wait_until
from tests.wire.mcp_server import PIXEL
from tools_app.exceptions import OutcomeUnknown, ToolFailed, ToolStopped
from tools_app.mcp import servers
from tools_app.mcp.servers import add_server, change_server
from tools_app.models import McpServer
from tools_app.parts import load_content
from tools_app.policy.effective import effective_policy, filter_tools_by_policy
from tools_app.policy.rules import Layer
from tools_app.registry import ToolContext
from tools_app.workspace_tools import tools_of_workspace

SERVERS = "/api/v1/tools/mcp-servers/"
TOKEN = "s3cr3t-of-the-yard-0815"
BEARER = {"Authorization": "Bearer {{vault:YARD}}"}


@pytest.fixture(scope="module")
def process() -> Iterator[McpProcess]:
    with McpProcess() as running:
        yield running


@pytest.fixture
def allowed(process: McpProcess, settings) -> McpProcess:
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp={process.netloc}"]
    return process


@pytest.fixture
def server(allowed, workspace) -> McpServer:
    vault.add(workspace.pk, "YARD", TOKEN)
    fields = {"name": "yard", "url": allowed.url, "headers": BEARER}
    return servers.refresh(add_server(workspace_id=workspace.pk, fields=fields))


@pytest.fixture
def context(workspace) -> ToolContext:
    return ToolContext(
        workspace_id=workspace.pk,
        session_id=uuid4(),
        agent_id=uuid4(),
        run_id=uuid4(),
        call_id="c1",
        sandbox=None,
        deadline=time.monotonic() + 60,
    )


def call(context: ToolContext, name: str, **arguments: object) -> str:
    tool = tools_of_workspace(context.workspace_id)[f"mcp:yard:{name}"]
    return str(tool.handler(tool.parse(arguments), context))


def test_a_server_can_be_added_and_refreshed_over_rest_and_its_tools_are_offered(
    api, workspace, allowed
):
    made = api.post(SERVERS, {"name": "yard", "url": allowed.url}, format="json")
    assert made.status_code == 201
    assert (made.json()["status"], made.json()["permission"]) == ("new", "always_ask")
    path = f"{SERVERS}{made.json()['id']}/"

    tested = api.post(f"{path}test/").json()
    assert (tested["ok"], tested["tools"], tested["error"]) == (True, 7, "")
    assert api.get(path).json()["tools"] == []

    body = api.post(f"{path}refresh/").json()
    assert (body["status"], body["error"], body["left_out"]) == ("ok", "", [])
    assert body["server_info"] == "Yard tools 1.2.3"
    names = [tool["name"] for tool in body["tools"]]
    assert names[:2] == ["mcp:yard:echo", "mcp:yard:add"]
    known = {tool["name"]: tool for tool in api.get("/api/v1/tools/").json()["results"]}
    echo = known["mcp:yard:echo"]
    assert (echo["category"], echo["ownership"], echo["permission"]) == ("mcp", "mcp", "always_ask")
    assert echo["input_schema"]["required"] == ["text"]
    assert (echo["read_only"], echo["idempotent"]) == (False, False)
    assert "description, not an instruction" in echo["description"]


def test_results_are_fenced_and_name_omitted_content(server, context):
    output = call(context, "echo", text="hello")

    assert "You said hello" in output
    assert "untrusted content" in output
    assert call(context, "add", a=1, b=2).count('"sum": 3') == 1
    shown = call(context, "picture")
    assert "Here it is." in shown
    assert "'media_type': 'image/png'" in shown
    assert load_content(context.workspace_id, sha256(PIXEL).hexdigest()) == PIXEL


def test_invalid_arguments_are_refused_before_the_server_is_called(server, context, process):
    with pytest.raises(ToolFailed, match="Invalid arguments for mcp:yard:echo"):
        call(context, "echo", text=7)

    assert "echo 7" not in process.notes()


def test_a_failing_tool_is_reported_differently_from_a_failing_server(server, context):
    with pytest.raises(ToolFailed, match=r"The tool fail failed[\s\S]*no such crane"):
        call(context, "fail", reason="no such crane")


def test_a_huge_output_is_clipped(server, context):
    output = call(context, "flood", characters=3_000_000)

    assert len(output) < 201_000
    assert "characters were cut here" in output


def test_a_response_beyond_the_limit_is_refused(server, context):
    with pytest.raises((OutcomeUnknown, ToolFailed), match="more than 8,000,000 bytes"):
        call(context, "flood", characters=9_000_000)


def test_the_credential_reaches_the_server_and_is_masked_in_its_output(
    server, context, process, api
):
    output = call(context, "whisper")

    assert "You came with Bearer [secret]" in output
    assert f"authorization Bearer {TOKEN}" in process.notes()
    shown = api.get(SERVERS).text
    assert TOKEN not in shown
    assert "{{vault:YARD}}" in shown
    assert api.get("/api/v1/vault/").json()["results"][0]["used_by"] == ["MCP server yard"]


def test_a_missing_secret_is_named_in_the_error(server, context, workspace):
    vault.delete(workspace.pk, "YARD")

    with pytest.raises(ToolFailed, match="no secret named YARD"):
        call(context, "echo", text="x")
    assert servers.refresh(server).error.startswith("The vault has no secret named YARD")
    assert server.status == "failed"
    assert len(server.tools) == 7


def test_a_secret_for_another_host_is_not_sent(server, context, workspace, process):
    vault.restrict(workspace.pk, "YARD", ["api.example.com"])
    before = process.notes()

    with pytest.raises(ToolFailed, match=r"may only be sent to api\.example\.com"):
        call(context, "echo", text="x")
    assert process.notes() == before


def test_a_call_can_be_stopped(server, context, process):
    began = len([line for line in process.notes() if line == "sleep began"])

    def stop() -> None:
        wait_until(
            lambda: len([line for line in process.notes() if line == "sleep began"]) > began,
            "the tool runs",
        )
        context.stopped.set()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(ToolStopped):
        call(context, "sleep", seconds=5)
    thread.join()


def test_a_call_that_takes_too_long_has_an_unknown_outcome(server, context):
    change_server(server, {"timeout_seconds": 1})

    with pytest.raises(OutcomeUnknown, match="did not answer within 1 s"):
        call(context, "sleep", seconds=3)


def test_a_dead_server_is_reported_and_keeps_its_known_tools(server, context, settings, workspace):
    port = free_port()
    settings.EGRESS_ALLOWED_PRIVATE = [f"mcp=127.0.0.1:{port}"]
    McpServer.objects.filter(pk=server.pk).update(url=f"http://127.0.0.1:{port}/mcp")
    server.refresh_from_db()

    with pytest.raises(ToolFailed, match="yard cannot be reached"):
        call(context, "echo", text="x")
    servers.refresh(server)
    assert (server.status, server.failures, len(server.tools)) == ("down", 1, 7)
    assert server.due_at > timezone.now()


def test_changing_the_address_discards_the_discovered_tools(server, workspace):
    change_server(server, {"url": "https://elsewhere.example/mcp", "headers": {}})

    server.refresh_from_db()
    assert (server.status, server.tools) == ("new", [])
    assert not any(name.startswith("mcp:") for name in tools_of_workspace(workspace.pk))


def test_a_discovery_with_outdated_credentials_is_discarded(server, workspace):
    before = McpServer.objects.get(pk=server.pk)
    change_server(server, {"headers": {}})

    servers.refresh(before)

    kept = McpServer.objects.get(pk=server.pk)
    assert (kept.status, kept.tools) == ("new", [])


def test_policy_rules_can_name_servers_by_pattern(server, workspace):
    tools = tools_of_workspace(workspace.pk)
    denied = filter_tools_by_policy(tools, Layer(name="agent", denied=("mcp:yard:*",)))

    assert not any(name.startswith("mcp:yard:") for name in denied)
    assert "mcp:yard:echo" in filter_tools_by_policy(tools, Layer(name="agent"))


def test_a_disabled_server_offers_no_tools(server, context, workspace):
    tool = tools_of_workspace(workspace.pk)["mcp:yard:echo"]
    change_server(server, {"enabled": False})

    assert "mcp:yard:echo" not in tools_of_workspace(workspace.pk)
    with pytest.raises(ToolFailed, match="switched off"):
        tool.handler(tool.parse({"text": "x"}), context)


def test_a_tool_is_repeatable_only_when_an_admin_marks_it(server, workspace):
    change_server(server, {"repeatable_tools": ["add", "ec*"]})
    tools = tools_of_workspace(workspace.pk)

    repeatable = {
        name for name, tool in tools.items() if tool.idempotent and tool.ownership == "mcp"
    }
    assert repeatable == {"mcp:yard:echo", "mcp:yard:add"}


def test_the_tools_of_all_servers_are_read_in_one_query_and_then_cached(server, workspace, owner):
    from sessions_app.sessions import get_or_create_session

    fields = {"name": "Clerk", "provider": "demo"}
    agent = create_agent(workspace_id=workspace.pk, fields=fields)
    session, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
    for name in ("second", "third"):
        other = add_server(
            workspace_id=workspace.pk, fields={"name": name, "url": "https://a.example/"}
        )
        McpServer.objects.filter(pk=other.pk).update(tools=server.tools)

    assert agent.current
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            policy = effective_policy(agent.current, session.pk)
        counts.append(len(queries))
    assert counts[0] <= 1, (
        "one query reads the servers' tools; the policy's own query bypasses the ORM"
    )
    assert counts[1] == 0
    assert len([name for name in policy if name.startswith("mcp:")]) == 21
    assert policy["mcp:yard:echo"].decision == "ask"


def test_due_servers_are_claimed_once_and_refreshed_in_the_background(
    transactional_db, allowed, workspace
):
    server = add_server(workspace_id=workspace.pk, fields={"name": "yard", "url": allowed.url})
    assert servers.claim_due() == [server.pk]
    assert servers.claim_due() == []

    McpServer.objects.update(due_at=timezone.now())
    assert servers.refresh_due()
    wait_until(
        lambda: McpServer.objects.get().status == "ok" and not servers._busy.locked(),
        "the server was refreshed",
    )
    assert McpServer.objects.get().due_at > timezone.now()


def test_a_run_key_can_read_servers_but_not_change_or_refresh_them(workspace, server):
    program = key_client(workspace, scope="run")
    path = f"{SERVERS}{server.pk}/"

    assert program.get(path).status_code == 200
    assert program.patch(path, {"enabled": False}, format="json").status_code == 403
    assert (
        program.post(SERVERS, {"name": "b", "url": "https://a.example"}, format="json").status_code
        == 403
    )
    assert program.post(f"{path}refresh/").status_code == 403
