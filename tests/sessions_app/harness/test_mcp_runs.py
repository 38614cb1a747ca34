"""Tests of agents that use tools of a real MCP server, including one that dies during a call."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from sessions_app.accept import accept_event
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from tests.conftest import key_client
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import say
from tests.wire.mcp_process import McpProcess, wait_until
from tools_app.mcp.servers import secrets_used
from tools_app.models import McpServer

pytestmark = pytest.mark.django_db(transaction=True)

E = SessionEvent.Type
SERVERS = "/api/v1/tools/mcp-servers/"
TOKEN = "s3cr3t-of-the-yard-4711"


@pytest.fixture
def process(settings, monkeypatch) -> Iterator[McpProcess]:
    monkeypatch.setenv("DEMO_DELAY_SECONDS", "0")
    with McpProcess() as running:
        settings.EGRESS_ALLOWED_PRIVATE = [f"mcp={running.netloc}"]
        yield running


@pytest.fixture
def server(process: McpProcess, workspace) -> McpServer:
    """Register the server over REST, as a program does."""
    api = key_client(workspace)
    kept = api.post("/api/v1/vault/", {"name": "YARD", "value": TOKEN}, format="json")
    assert kept.status_code == 201
    fields = {
        "name": "yard",
        "url": process.url,
        "headers": {"Authorization": "Bearer {{vault:YARD}}"},
    }
    made = api.post(SERVERS, fields, format="json").json()
    assert api.post(f"{SERVERS}{made['id']}/refresh/").json()["status"] == "ok"
    return McpServer.objects.get()


def talk(session: Session, principal, text: str) -> str:
    say(session, principal, text)
    serve(session.pk)
    return str(newest(session, E.AGENT_MESSAGE).payload["text"])


def allow(session: Session, principal) -> None:
    waiting = ToolExecution.objects.filter(session=session).latest("id")
    payload = {"tool_use_id": waiting.tool_use_id, "decision": "allow"}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=payload)


def use(tool: str, **arguments: object) -> str:
    return f"Use tool mcp:yard:{tool} with {json.dumps(arguments)}"


def test_a_call_asks_first_and_its_result_reaches_the_model_without_secrets(
    server, session, principal, process, caplog, capfd
):
    talk(session, principal, use("echo", text="cranes"))
    session.refresh_from_db()
    call = newest(session, E.AGENT_TOOL_USE).payload
    assert (call["name"], call["ownership"], call["decision"]) == ("mcp:yard:echo", "mcp", "ask")
    assert session.status == "requires_action"
    assert "echo cranes" not in process.notes()

    allow(session, principal)
    serve(session.pk)

    result = newest(session, E.AGENT_TOOL_RESULT).payload
    assert (result["state"], result["error"]) == ("completed", "")
    assert "You said cranes" in result["output"]
    assert "You said cranes" in newest(session, E.AGENT_MESSAGE).payload["text"]
    assert f"authorization Bearer {TOKEN}" in process.notes()

    talk(session, principal, use("whisper"))
    allow(session, principal)
    serve(session.pk)
    assert "Bearer [secret]" in newest(session, E.AGENT_TOOL_RESULT).payload["output"]
    told = [json.dumps(event.payload) for event in session.events.all()]
    told += [json.dumps(run.policy) + json.dumps(run.result) for run in Run.objects.all()]
    told += [caplog.text, *capfd.readouterr()]
    assert not any(TOKEN in text for text in told)


def test_a_server_killed_during_a_call_does_not_block_the_session(
    server, session, principal, process
):
    talk(session, principal, use("sleep", seconds=600))
    allow(session, principal)

    def kill() -> None:
        wait_until(lambda: "sleep began" in process.notes(), "the tool runs")
        process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    serve(session.pk)
    killer.join()

    result = newest(session, E.AGENT_TOOL_RESULT).payload
    assert result["state"] == "unknown"
    assert "connection to yard broke" in result["error"]
    assert "Whether the call took effect is not known" in result["error"]
    session.refresh_from_db()
    assert session.status == "idle"

    assert "still here" in talk(session, principal, 'Say "still here"')
    talk(session, principal, use("echo", text="again"))
    allow(session, principal)
    serve(session.pk)
    result = newest(session, E.AGENT_TOOL_RESULT).payload
    assert (result["state"], "cannot be reached" in result["error"]) == ("error", True)

    process.start()
    talk(session, principal, use("echo", text="third"))
    allow(session, principal)
    serve(session.pk)
    assert "You said third" in newest(session, E.AGENT_TOOL_RESULT).payload["output"]


def test_a_session_starts_without_contacting_a_dead_server(
    server, agent, principal, process, monkeypatch
):
    from sessions_app.sessions import get_or_create_session

    process.kill()
    monkeypatch.setattr("anyio.run", lambda *_: pytest.fail("a server was contacted"))
    session, _ = get_or_create_session(agent=agent, session_key="later", created_by_id=None)

    assert "hello" in talk(session, principal, 'Say "hello"')
    assert "mcp:yard:echo" in Run.objects.get(session=session).policy


def test_another_workspace_neither_sees_the_server_nor_its_tools(server, foreign_workspace):
    stranger = key_client(foreign_workspace)

    assert stranger.get(f"{SERVERS}{server.pk}/").status_code == 404
    assert stranger.post(f"{SERVERS}{server.pk}/refresh/").status_code == 404
    assert stranger.delete(f"{SERVERS}{server.pk}/").status_code == 404
    assert stranger.get(SERVERS).json()["results"] == []
    names = [tool["name"] for tool in stranger.get("/api/v1/tools/").json()["results"]]
    assert not any(name.startswith("mcp:") for name in names)
    assert secrets_used(foreign_workspace.pk) == {}
