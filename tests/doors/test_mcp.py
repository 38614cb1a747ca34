"""The MCP door, by the client of the official SDK, in the newest version and with a handshake."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.doors.conftest import AGENT, Model
from tests.stack.client import Client
from tests.stack.running import Running
from tests.wire.answers import JSON, Answer, Call, Refuse, Reply

VERSIONS = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])


@asynccontextmanager
async def connected(
    stack: Running, key: str, mode: str = "2026-07-28", **more: Any
) -> AsyncIterator[McpClient]:
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=120)
    transport = streamable_http_client(f"{stack.base_url}/mcp", http_client=http)
    async with http, McpClient(transport, mode=mode, **more) as client:
        yield client


async def the_tool(client: McpClient) -> types.Tool:
    listed = (await client.list_tools()).tools
    return next(tool for tool in listed if tool.title == AGENT)


@VERSIONS
async def test_an_agent_is_a_tool(stack: Running, client: Client, model: Model, mode: str):
    async with connected(stack, client.key, mode) as mcp:
        tool = await the_tool(mcp)
        first: Any = await mcp.call_tool(tool.name, {"message": "One"})
        session_id = first.structured_content["session_id"]
        again: Any = await mcp.call_tool(tool.name, {"message": "Two", "session_id": session_id})

    assert tool.description == "Helps."
    assert first.content[0].text == "Hello there."
    assert first.structured_content["text"] == "Hello there."
    assert again.structured_content["session_id"] == session_id
    users = [m["content"] for m in model.requests[-1]["messages"] if m["role"] == "user"]
    assert [text.partition("\n")[0] for text in users] == ["One", "Two"]


@VERSIONS
async def test_progress_is_reported(stack: Running, client: Client, model: Model, mode: str):
    def answer(body: JSON) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Answer(text=("Done.",))
        return Answer(calls=(Call(name="current_time", arguments={}),))

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    told: list[str | None] = []
    model.answer = answer
    async with connected(stack, client.key, mode) as mcp:
        tool = await the_tool(mcp)
        await mcp.call_tool(tool.name, {"message": "What time is it?"}, progress_callback=note)

    assert told == ["Calls current_time", "current_time: completed"]


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_person_at_the_client_answers_an_approval(
    stack: Running, client: Client, model: Model, decision: str
):
    def answer(body: JSON) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Answer(text=("Over.",))
        return Answer(calls=(Call(name="exec", arguments={"command": "echo hi"}),))

    async def decide(context: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": decision, "note": "no"})

    asked: list[str] = []
    model.answer = answer
    async with connected(stack, client.key, elicitation_callback=decide) as mcp:
        tool = await the_tool(mcp)
        ended: Any = await mcp.call_tool(tool.name, {"message": "Say hi in a shell"})

    assert asked == ['exec {"command":"echo hi"}']
    assert ended.content[0].text == "Over."
    outcome = model.requests[-1]["messages"][-1]["content"]
    assert ("refused" in outcome) is (decision == "deny")


async def test_a_person_at_the_client_answers_a_question(
    stack: Running, client: Client, model: Model
):
    field = {"name": "colour", "label": "Colour", "kind": "choice", "options": ["red", "blue"]}
    asking = Call(name="ask_user", arguments={"question": "Which one?", "fields": [field]})

    def answer(body: JSON) -> Reply:
        is_result = body["messages"][-1]["role"] == "tool"
        return Answer(text=("Fine.",)) if is_result else Answer(calls=(asking,))

    async def choose(context: Any, params: types.ElicitRequestFormParams) -> types.ElicitResult:
        asked.append((params.message, params.requested_schema["properties"]["colour"]["enum"]))
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    asked: list[Any] = []
    model.answer = answer
    async with connected(stack, client.key, elicitation_callback=choose) as mcp:
        tool = await the_tool(mcp)
        ended: Any = await mcp.call_tool(tool.name, {"message": "Paint it"})

    assert asked == [("Which one?", ["red", "blue"])]
    assert ended.content[0].text == "Fine."
    assert "blue" in model.requests[-1]["messages"][-1]["content"]


async def test_a_model_that_fails_is_an_error_that_the_client_can_read(
    stack: Running, client: Client, model: Model
):
    model.answer = lambda body: Refuse(status=400, message="no such thing")
    async with connected(stack, client.key) as mcp:
        tool = await the_tool(mcp)
        failed: Any = await mcp.call_tool(tool.name, {"message": "Hello"})
        unknown: Any = await mcp.call_tool("nobody", {"message": "Hello"})
        wrong: Any = await mcp.call_tool(tool.name, {"message": ""})

    assert failed.is_error
    assert "no such thing" in failed.content[0].text
    assert unknown.is_error
    assert wrong.is_error


@VERSIONS
async def test_sessions_and_memory_are_resources(
    stack: Running, client: Client, model: Model, mode: str
):
    path = f"notes/{mode}.md"
    note = client.call("memory/", {"path": path, "content": "# Rules", "scope": "workspace"})
    async with connected(stack, client.key, mode) as mcp:
        tool = await the_tool(mcp)
        said: Any = await mcp.call_tool(tool.name, {"message": "Hi"})
        session_id = said.structured_content["session_id"]
        listed = {str(one.uri): one.name for one in (await mcp.list_resources()).resources}
        memory: Any = await mcp.read_resource(f"switchyard://memory/{note['id']}")
        talk: Any = await mcp.read_resource(f"switchyard://sessions/{session_id}")
        with pytest.raises(MCPError, match="no such resource"):
            await mcp.read_resource("switchyard://memory/00000000-0000-0000-0000-000000000000")

    assert listed[f"switchyard://memory/{note['id']}"] == path
    assert f"switchyard://sessions/{session_id}" in listed
    assert memory.contents[0].text == "# Rules"
    assert talk.contents[0].text == "**user**: Hi\n\n**assistant**: Hello there."


async def test_a_stranger_sees_nothing_of_it(stack: Running, client: Client, model: Model):
    stack.manage("shell", "-c", MAKE_STRANGER)
    foreign = stack.manage("issue_key", "--workspace", "Elsewhere", "--scope", "admin")
    async with connected(stack, client.key) as mcp:
        tool = await the_tool(mcp)
        own: Any = (await mcp.call_tool(tool.name, {"message": "Hi"})).structured_content
    async with connected(stack, foreign.stdout.strip()) as mcp:
        listed: Any = await mcp.list_tools()
        called: Any = await mcp.call_tool(tool.name, {"message": "Hi"})
        with pytest.raises(MCPError, match="no such resource"):
            await mcp.read_resource(f"switchyard://sessions/{own['session_id']}")

    assert tool.name not in {one.name for one in listed.tools}
    assert called.is_error


MAKE_STRANGER = """
from orchestrator.workspaces import create_workspace
from tenants.models import User
create_workspace(name="Elsewhere", owner=User.objects.create_user("x@example.com", "other horse 9"))
"""


async def test_a_wrong_key_and_a_browser_are_refused(stack: Running):
    async with httpx2.AsyncClient() as http:
        for headers in ({}, {"x-api-key": "wrong"}, {"cookie": "sessionid=x"}):
            answer = await http.post(f"{stack.base_url}/mcp", headers=headers, json={})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"]
