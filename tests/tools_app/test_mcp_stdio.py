"""Tests that an MCP server over stdio runs in the sandbox and is reached only by its pipes."""

from __future__ import annotations

import shlex
import threading
import time
from typing import Any

import pytest

from agents.environments import change_environment, default_environment
from tenants.models import Workspace
from tests.tools_app.conftest import needs_bwrap
from tools_app.exceptions import OutcomeUnknown, ToolFailed, ToolStopped
from tools_app.files import SessionFolder, shared_dir
from tools_app.mcp import servers
from tools_app.mcp.servers import add_server
from tools_app.models import McpServer
from tools_app.registry import ToolContext
from tools_app.sandbox.base import Limits
from tools_app.sandbox.local import LocalSandbox
from tools_app.sandbox.provisioning import LazySandbox
from tools_app.workspace_tools import tools_of_workspace

pytestmark = needs_bwrap

#: Speaks the protocol without the SDK: the sandbox has Python and no packages.
SCRIPT = """
import json, os, sys, time
print("chatter that is no JSON", flush=True)
print("a word on stderr", file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, params = asked["method"], asked.get("params") or {}
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "pipes", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": n, "inputSchema": {"type": "object"}}
                                      for n in ("where", "hang", "die", "large")]}
    elif method == "tools/call":
        name = params["name"]
        if name == "hang": time.sleep(600)
        if name == "die": sys.exit(3)
        text = "y" * 300000 if name == "large" else os.getcwd() + " " + " ".join(sorted(os.listdir("/")))
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def server(workspace: Workspace, data_dir: Any) -> McpServer:
    fields = {
        "name": "pipes",
        "transport": "stdio",
        "command": f"python3 -u -c {shlex.quote(SCRIPT)}",
    }
    return servers.refresh(add_server(workspace_id=workspace.pk, fields=fields))


@pytest.fixture
def context(workspace: Workspace, data_dir: Any) -> ToolContext:
    from core.ids import uuid7

    folder = SessionFolder(workspace_id=workspace.pk, session_id=uuid7())
    sandbox = LocalSandbox(folder=folder, limits=Limits())
    return ToolContext(
        workspace_id=workspace.pk,
        session_id=folder.session_id,
        agent_id=uuid7(),
        run_id=uuid7(),
        call_id="c1",
        sandbox=LazySandbox(lambda: sandbox),
        deadline=time.monotonic() + 60,
    )


def call(context: ToolContext, name: str) -> str:
    tool = tools_of_workspace(context.workspace_id)[f"mcp:pipes:{name}"]
    return str(tool.handler(tool.parse({}), context))


def leftover_pipes(context: ToolContext) -> list[str]:
    folder = SessionFolder(workspace_id=context.workspace_id, session_id=context.session_id)
    return [path.name for path in folder.make().iterdir()]


def test_a_server_is_discovered_and_called_in_the_sandbox(server, context):
    assert (server.status, server.error, server.server_info) == ("ok", "", "pipes 1")
    assert [tool["name"] for tool in server.tools] == ["where", "hang", "die", "large"]

    output = call(context, "where")
    assert "/workspace" in output
    assert "root" not in output.split()
    assert call(context, "large").count("y") > 100_000
    assert leftover_pipes(context) == []


def test_a_command_that_exits_is_reported_with_its_output(server, context):
    with pytest.raises((ToolFailed, OutcomeUnknown), match=r"exit 3[\s\S]*a word on stderr"):
        call(context, "die")
    assert leftover_pipes(context) == []


def test_stopping_a_call_stops_its_command(server, context):
    threading.Timer(0.5, context.stopped.set).start()

    with pytest.raises(ToolStopped):
        call(context, "hang")
    assert leftover_pipes(context) == []


def test_a_call_that_takes_too_long_has_an_unknown_outcome(server, context):
    McpServer.objects.update(timeout_seconds=2)

    with pytest.raises(OutcomeUnknown, match="did not answer within 2 s"):
        call(context, "hang")


def test_a_missing_command_is_reported(workspace, data_dir):
    fields = {"name": "pipes", "transport": "stdio", "command": "no-such-program --serve"}
    server = servers.refresh(add_server(workspace_id=workspace.pk, fields=fields))

    assert (server.status, server.tools) == ("failed", [])
    assert "no-such-program" in server.error


def test_a_server_may_be_in_a_directory_that_the_workspace_shares(workspace, data_dir):
    mount = {
        "kind": "workspace_directory",
        "source_ref": "servers",
        "mount_path": "/workspace/servers",
    }
    change_environment(default_environment(workspace.pk), {"mounts": [mount]})
    directory = shared_dir(workspace.pk) / "servers"
    directory.mkdir(parents=True)
    for folder in (directory, *directory.parents[:2]):
        folder.chmod(0o755)
    (directory / "pipes.py").write_text(SCRIPT)

    command = "python3 -u /workspace/servers/pipes.py"
    fields = {"name": "pipes", "transport": "stdio", "command": command}
    server = servers.refresh(add_server(workspace_id=workspace.pk, fields=fields))

    assert (server.status, server.error) == ("ok", "")
