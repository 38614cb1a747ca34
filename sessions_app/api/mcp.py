"""The MCP door at /mcp: clients of the Model Context Protocol call agents as tools.

The official SDK speaks the protocol, in its version of 2026-07-28 and in those with a handshake. Every
request stands for itself, so any web process can serve it. Sessions and memory are resources.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any
from uuid import UUID

import mcp_types as types
import orjson
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from agents.models import Agent
from core.db import read
from core.exceptions import CHALLENGE, Fault, Invalid, NotFound, TooManyRequests, Unauthenticated
from core.problems import CONTENT_TYPE, UNEXPECTED, problem_body, problem_of
from memory.documents import content_of
from memory.models import MemoryEntry
from memory.ownership import Reader
from sessions_app.accept import accept_event
from sessions_app.exchange import Exchange, Extent, ask, find_exchange, follow, resumed
from sessions_app.live.frames import Body
from sessions_app.log.transcript import newest_history
from sessions_app.models import Session, SessionEvent, ToolExecution
from sessions_app.sessions import find_session
from tenants.access import Principal, authorise
from tenants.authentication import key_in_headers, principal_of_secret, spend_as
from tools_app.questions import Question, QuestionField
from tools_app.registry import registry

#: What a list returns at once. Clients ask for the rest with its cursor.
PAGE = 100
LONGEST_MESSAGE = 200_000
SESSION_URI, MEMORY_URI = "switchyard://sessions/", "switchyard://memory/"
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to say to the agent."},
        "session_id": {
            "type": "string",
            "description": "The session_id of an earlier result, to continue that conversation.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "session_id": {"type": "string"},
        "run_id": {"type": "string"},
        "stop_reason": {"type": "string"},
    },
    "required": ["text", "session_id", "run_id", "stop_reason"],
}
APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["allow", "deny"]},
        "note": {"type": "string", "title": "Reason", "maxLength": 2000},
    },
    "required": ["decision"],
}

Context = Any  #: The SDK's context of a request; generic in ways that do not matter here.
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


# ── Agents as tools ──────────────────────────────────────────────────────────────────────────────


async def list_tools(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    rows = await read(_agents, principal_in(context), _cursor(params))
    page, following = rows[:PAGE], len(rows) > PAGE
    return types.ListToolsResult(
        tools=[_tool(agent) for agent in page],
        next_cursor=str(page[-1].pk) if following else None,
    )


def _agents(principal: Principal, after: UUID | None) -> list[Agent]:
    rows = Agent.objects.for_workspace(authorise(principal, "read")).offered()
    rows = rows.filter(pk__gt=after) if after else rows
    return list(rows.select_related("current").order_by("pk")[: PAGE + 1])


def _tool(agent: Agent) -> types.Tool:
    version = agent.current
    name = version.name if version else "Agent"
    return types.Tool(
        name=tool_name(agent),
        title=name,
        description=(version and version.description) or f"Asks the agent {name}.",
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
    )


def tool_name(agent: Agent) -> str:
    """Return a name that stays the same when the agent is renamed: its id is part of it."""
    name = agent.current.name if agent.current else ""
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:60]
    return f"{slug or 'agent'}-{agent.pk.hex}"


def _agent_id(name: str) -> UUID:
    try:
        return UUID(hex=name.rpartition("-")[2])
    except ValueError:
        raise NotFound(f"There is no tool {name[:100]!r} here.") from None


async def call_tool(
    context: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Ask an agent. What goes wrong with the agent is the result, so that the model can read it."""
    principal = principal_in(context)
    try:
        if params.request_state:
            exchange = await read(_answer_approvals, principal, params)
        else:
            exchange = await read(_ask, principal, params)
    except Fault as fault:
        return types.CallToolResult(content=[_text(fault.detail)], is_error=True)
    capabilities = context.session.client_capabilities
    can_ask = bool(capabilities and capabilities.elicitation) and _is_modern(context)
    extent = Extent(exchange=exchange, ends_at_approval=can_ask)
    frames = await _follow(context, extent, principal)
    if can_ask and extent.stop_reason == "requires_action":
        return _ask_for_approval(extent)
    return _result(extent, frames)


def _ask(principal: Principal, params: types.CallToolRequestParams) -> Exchange:
    given = params.arguments or {}
    message, session_id = given.get("message"), given.get("session_id")
    if not isinstance(message, str) or not message.strip() or len(message) > LONGEST_MESSAGE:
        raise Invalid(f"`message` must be a text of at most {LONGEST_MESSAGE:,} characters.")
    agent_id = _agent_id(params.name)
    session = find_session(principal, _uuid(session_id), "run") if session_id else None
    if session and session.agent_id != agent_id:
        raise NotFound("This session belongs to another agent.")
    return ask(principal, agent_id, message, session=session, metadata={"client": "mcp"})


def _uuid(text: object) -> UUID:
    try:
        return UUID(str(text))
    except ValueError:
        raise NotFound from None


async def _follow(context: Context, extent: Extent, principal: Principal) -> list[Body]:
    """Return the stored frames of an exchange, and report progress while they come."""
    stored: list[Body] = []
    async with aclosing(follow(extent, principal, stops=True)) as frames:  # type: ignore[type-var]
        async for frame in frames:
            if frame is None:
                await context.session.report_progress(len(stored), message="Still at work")
            elif frame["seq"] is not None:
                stored.append(frame)
                if told := _progress(frame):
                    await context.session.report_progress(len(stored), message=told)
    return stored


def _progress(frame: Body) -> str:
    kind, name = frame["metadata"].get("event_type"), frame.get("tool_name", "")
    match kind:
        case SessionEvent.Type.AGENT_TOOL_USE:
            return f"Calls {name}"
        case SessionEvent.Type.AGENT_TOOL_RESULT:
            return f"{name}: {frame['tool_state']}"
        case _:
            return ""


def _result(extent: Extent, frames: list[Body]) -> types.CallToolResult:
    errors = [f["error"] for f in frames if f["type"] == "error"]
    said = [f["content"] for f in frames if f["type"] == "assistant" and not _is_thinking(f)]
    text = "\n\n".join(filter(None, said))
    if errors:
        return types.CallToolResult(content=[_text(errors[-1])], is_error=True)
    exchange = extent.exchange
    structured = {
        "text": text,
        "session_id": str(exchange.session_id),
        "run_id": str(exchange.run_id),
        "stop_reason": extent.stop_reason,
    }
    return types.CallToolResult(content=[_text(text)], structured_content=structured)


def _is_thinking(frame: Body) -> bool:
    return frame["metadata"].get("kind") == "thinking"


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


# ── Approvals ────────────────────────────────────────────────────────────────────────────────────


def _is_modern(context: Context) -> bool:
    """Return whether the client retries a call with answers. Older clients wait for the inbox."""
    return str(context.protocol_version) >= "2026-07-28"


def _ask_for_approval(extent: Extent) -> types.InputRequiredResult:
    """Ask the client's user about each call that waits. The state names the run, which is authorised."""
    asked: types.InputRequests = {
        call_id: types.ElicitRequest(params=types.ElicitRequestFormParams(**_form_of(call)))
        for call_id, call in extent.calls.items()
        if extent.asks(call)
    }
    state = str(extent.exchange.run_id)
    return types.InputRequiredResult(input_requests=asked, request_state=state)


def _form_of(call: Body) -> dict[str, Any]:
    """Return the text and the form that the client's user sees: that of a question, or allow and deny."""
    if not _is_question(call["tool_name"]):
        told = f"{call['tool_name']} {orjson.dumps(call['tool_input']).decode()}"
        return {"message": told, "requested_schema": APPROVAL_SCHEMA}
    question = Question.model_validate(call["tool_input"])
    schema = {
        "type": "object",
        "properties": {field.name: _property_of(field) for field in question.fields},
        "required": [field.name for field in question.fields if field.required],
    }
    return {"message": question.question, "requested_schema": schema}


def _is_question(name: str) -> bool:
    return name in registry and registry[name].asks


def _property_of(field: QuestionField) -> dict[str, Any]:
    match field.kind:
        case "choice":
            return {"type": "string", "title": field.label, "enum": field.options}
        case "several":
            items = {"type": "string", "enum": field.options}
            return {"type": "array", "title": field.label, "items": items}
        case "number":
            return {"type": "number", "title": field.label}
        case "date":
            return {"type": "string", "title": field.label, "format": "date"}
        case "text" | "file":
            return {"type": "string", "title": field.label}


def _answer_approvals(principal: Principal, params: types.CallToolRequestParams) -> Exchange:
    exchange = find_exchange(principal, _uuid(params.request_state), "run")
    session_id, accepted = exchange.session_id, None
    calls = ToolExecution.objects.filter(session=session_id)
    names = dict(calls.filter(state="awaiting_approval").values_list("tool_use_id", "name"))
    for call_id, response in (params.input_responses or {}).items():
        given = dict(getattr(response, "content", None) or {})
        accepts = getattr(response, "action", "") == "accept"
        payload: dict[str, Any] = {"tool_use_id": call_id, "decision": "deny"}
        if accepts and _is_question(names.get(call_id, "")):
            payload |= {"decision": "answer", "values": given}
        elif accepts:
            decision = "allow" if given.get("decision") == "allow" else "deny"
            payload |= {"decision": decision, "note": str(given.get("note") or "")}
        accepted = accept_event(
            principal, session_id, type=SessionEvent.Type.USER_TOOL_CONFIRMATION, payload=payload
        )
    if accepted is None:
        raise Invalid("Send the answers in `inputResponses`.")
    return resumed(exchange.session_id, accepted)


# ── Sessions and memory as resources ─────────────────────────────────────────────────────────────


async def list_resources(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    return await read(_resources, principal_in(context), _cursor(params))


def _resources(principal: Principal, before: UUID | None) -> types.ListResourcesResult:
    """Return the newest sessions, and with the first page the documents of memory."""
    workspace_id = authorise(principal, "read")
    rows = Session.objects.for_workspace(workspace_id).active()
    rows = rows.filter(pk__lt=before) if before else rows
    sessions = list(rows.order_by("-pk")[: PAGE + 1])
    found = [
        types.Resource(
            uri=f"{SESSION_URI}{session.pk}",
            name=session.title or "Untitled session",
            mime_type="text/markdown",
        )
        for session in sessions[:PAGE]
    ]
    if before is None:
        documents = _documents(principal, workspace_id).order_by("path")[:PAGE]
        found += [
            types.Resource(
                uri=f"{MEMORY_URI}{entry.pk}", name=entry.path, mime_type="text/markdown"
            )
            for entry in documents
        ]
    following = str(sessions[PAGE - 1].pk) if len(sessions) > PAGE else None
    return types.ListResourcesResult(resources=found, next_cursor=following)


async def list_templates(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    templates = [
        types.ResourceTemplate(
            uri_template=f"{uri}{{id}}", name=name, title=title, mime_type="text/markdown"
        )
        for uri, name, title in (
            (SESSION_URI, "session", "The transcript of a session"),
            (MEMORY_URI, "memory", "A document of memory"),
        )
    ]
    return types.ListResourceTemplatesResult(resource_templates=templates)


async def read_resource(
    context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    try:
        text = await read(_content, principal_in(context), uri)
    except NotFound:
        raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": uri}) from None
    content = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
    return types.ReadResourceResult(contents=[content])


def _content(principal: Principal, uri: str) -> str:
    workspace_id = authorise(principal, "read")
    if uri.startswith(SESSION_URI):
        session = find_session(principal, _uuid(uri.removeprefix(SESSION_URI)))
        messages = newest_history(session, limit=PAGE)
        return "\n\n".join(f"**{message.role}**: {message.text}" for message in messages)
    if uri.startswith(MEMORY_URI):
        entry_id = _uuid(uri.removeprefix(MEMORY_URI))
        entry = _documents(principal, workspace_id).filter(pk=entry_id).first()
        if entry:
            return content_of(entry)
    raise NotFound


def _documents(principal: Principal, workspace_id: UUID) -> Any:
    reader = Reader(workspace_id=workspace_id, user_id=principal.user_id, whole_workspace=True)
    rows = MemoryEntry.objects.select_related("current").seen_by(reader)
    return rows.filter(current__isnull=False, deleted_at=None)


# ── The server ───────────────────────────────────────────────────────────────────────────────────


def _cursor(params: types.PaginatedRequestParams | None) -> UUID | None:
    if params is None or params.cursor is None:
        return None
    try:
        return UUID(params.cursor)
    except ValueError:
        raise MCPError(types.INVALID_PARAMS, "This cursor is not valid.") from None


def principal_in(context: Context) -> Principal:
    """Return the principal that the door put into the scope of the request."""
    principal: Principal = context.request.scope["principal"]
    return principal


class McpDoor:
    """The ASGI application of this door. It starts the SDK's server at the first request."""

    def __init__(self) -> None:
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await read(_identify, scope)
        except Fault as fault:
            await _refuse(fault, send)
            return
        manager = await self._started()
        await manager.handle_request({**scope, "principal": principal}, receive, send)  # type: ignore[arg-type]

    async def _started(self) -> StreamableHTTPSessionManager:
        ready = self._ready
        if ready is None or self._serving is None or self._serving.done():
            self._ready = ready = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(ready), name="mcp door")
        return await asyncio.shield(ready)

    async def _serve(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        server: Server[Any] = Server(
            "switchyard",
            title="Switchyard",
            instructions="Each tool is an agent. Pass the session_id of a result to go on with it.",
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_resources=list_resources,
            on_list_resource_templates=list_templates,
            on_read_resource=read_resource,
        )
        manager = StreamableHTTPSessionManager(server, stateless=True)
        async with manager.run():
            ready.set_result(manager)
            await asyncio.Event().wait()


def _identify(scope: Scope) -> Principal:
    """Return the principal of the key, and count the request. Only keys come in: a page of another
    site could use the cookie of a browser.
    """
    headers = {name.decode("latin1"): value.decode("latin1") for name, value in scope["headers"]}
    secret = key_in_headers(headers)
    if secret is None:
        raise Unauthenticated
    client = scope.get("client") or ["unknown"]
    principal = principal_of_secret(secret, client=str(client[0]))
    authorise(principal, "read")
    if wait := spend_as(principal).wait:
        raise TooManyRequests(retry_after=wait)
    return principal


async def _refuse(fault: Fault, send: Send) -> None:
    problem = problem_of(fault) or UNEXPECTED
    headers = {"content-type": CONTENT_TYPE, **problem.headers}
    if fault.status == 401:
        headers["WWW-Authenticate"] = CHALLENGE
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": encoded})
    body = orjson.dumps(problem_body(problem, ""))
    await send({"type": "http.response.body", "body": body})
