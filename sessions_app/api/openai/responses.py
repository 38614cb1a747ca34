"""The Responses API: a response is one exchange with an agent, and a conversation is a session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal
from uuid import UUID

import orjson
from django.http import HttpResponseBase
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from core.db import read
from core.exceptions import Invalid, NotFound
from core.responses import SSE_PING, AwaitedResponse, encode_sse, event_stream
from sessions_app.accept import accept_event, client_dedupe_key
from sessions_app.api.openai.base import (
    Content,
    Lenient,
    ModelName,
    OpenAIView,
    client_tool,
    error_body,
    late_problem,
    overrides_of,
    read_body,
    refuse_forced_tool,
    text_of,
)
from sessions_app.api.openai.response_items import ResponseItems
from sessions_app.exchange import (
    GO_ON,
    Exchange,
    Extent,
    PastCall,
    PastMessage,
    answer_calls,
    ask,
    end_if_lost,
    find_exchange,
    follow,
    frames_of,
    resumed,
    usage_of,
    wait_for_end,
)
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.sessions import cancel_run, find_session, fork
from tenants.access import Principal
from tools_app.workspace_tools import ClientTool


class InputItem(Lenient):
    """A message, a call with its result, or the answer to a request for approval."""

    type: str = "message"
    role: Literal["user", "assistant", "system", "developer"] = "user"
    content: Content = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: Any = None
    approval_request_id: str = ""
    approve: bool = False
    reason: str | None = None


class FunctionTool(Lenient):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ConversationRef(Lenient):
    id: str


class TextFormat(Lenient):
    type: Literal["text"] = "text"


class TextOptions(Lenient):
    format: TextFormat | None = None


class ResponseInput(Lenient):
    model: str = ""
    input: str | list[InputItem] = Field(min_length=1)
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationRef | None = None
    stream: bool = False
    background: bool = False
    temperature: float | None = None
    max_output_tokens: int | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Any = None
    text: TextOptions | None = None

    @property
    def items(self) -> list[InputItem]:
        return [InputItem(content=self.input)] if isinstance(self.input, str) else self.input

    @property
    def client_tools(self) -> list[ClientTool]:
        if self.tool_choice == "none":
            return []
        return [client_tool(t.name, t.description, t.parameters) for t in self.tools or []]


class ResponsesView(OpenAIView):
    def post(self, request: Request) -> HttpResponseBase:
        """Send input to an agent. The response is streamed, awaited, or left to the background."""
        wanted = read_body(request, ResponseInput)
        refuse_forced_tool(wanted.tool_choice)
        exchange = _begin(self.principal, wanted, request.headers.get("Idempotency-Key"))
        items = ResponseItems(model=wanted.model, extent=_extent(exchange))
        if wanted.stream:
            stops = not wanted.background
            return event_stream(_stream(items, self.principal, stops=stops))
        if wanted.background:
            return Response(_body(items, background=True))
        principal = self.principal
        return AwaitedResponse(lambda: _answer(items, principal))


class ResponseView(OpenAIView):
    def get(self, request: Request, response_id: str) -> HttpResponseBase:
        """Retrieve a response as it is now, or follow it from its beginning with `stream=true`."""
        items = ResponseItems(model="", extent=_extent(_find(self.principal, response_id, "read")))
        if request.query_params.get("stream") == "true":
            return event_stream(_stream(items, self.principal))
        for frame in frames_of(items.extent):
            items.consume(frame)
        return Response(_body(items))


class CancelView(OpenAIView):
    def post(self, request: Request, response_id: str) -> Response:
        """Stop the run of a response."""
        exchange = _find(self.principal, response_id, "run")
        run = Run.objects.get(pk=exchange.run_id)
        if run.status in (Run.Status.QUEUED, Run.Status.RUNNING):
            cancel_run(run, self.principal.user_id)
        items = ResponseItems(model="", extent=_extent(exchange))
        for frame in frames_of(items.extent):
            items.consume(frame)
        return Response(_body(items))


def _find(principal: Principal, response_id: str, verb: Literal["read", "run"]) -> Exchange:
    return find_exchange(principal, _id_of(response_id, "resp_"), verb)


def _id_of(text: str, prefix: str) -> UUID:
    try:
        return UUID(hex=text.removeprefix(prefix))
    except ValueError:
        raise NotFound(f"There is no {text[:80]!r} here.") from None


# ── What is sent ─────────────────────────────────────────────────────────────────────────────────


def _begin(principal: Principal, wanted: ResponseInput, key: str | None) -> Exchange:
    """Give what is new to the session that it belongs to: answers to what waits, or a message."""
    answers = [i for i in wanted.items if i.type == "mcp_approval_response"]
    results = {i.call_id: i.output for i in wanted.items if i.type == "function_call_output"}
    if answers and (found := _answer_approvals(principal, wanted, answers)):
        return found
    if results and (found := answer_calls(principal, results)):
        return found
    session = _session_of(principal, wanted)
    past, text, instructions = _taken_apart(wanted)
    name = ModelName.parse(wanted.model or _model_of(session))
    return ask(
        principal,
        name.agent,
        text,
        session=session,
        session_key=_session_key(wanted),
        version=name.version if wanted.model else None,
        past=past,
        metadata={"client": "openai"},
        dedupe_key=client_dedupe_key(principal, key),
        overrides=overrides_of(
            instructions=instructions,
            tools=wanted.client_tools,
            temperature=wanted.temperature,
            max_tokens=wanted.max_output_tokens,
        ),
    )


def _model_of(session: Session | None) -> str:
    if session is None:
        raise Invalid("`model` must name an agent.")
    return str(session.agent_id)


def _answer_approvals(
    principal: Principal, wanted: ResponseInput, answers: Sequence[InputItem]
) -> Exchange | None:
    if not wanted.previous_response_id:
        raise Invalid("An approval needs `previous_response_id`, the response that asked for it.")
    session_id = _find(principal, wanted.previous_response_id, "run").session_id
    accepted = None
    for answer in answers:
        payload = {
            "tool_use_id": answer.approval_request_id.removeprefix("mcpr_"),
            "decision": "allow" if answer.approve else "deny",
            "note": answer.reason or "",
        }
        accepted = accept_event(
            principal, session_id, type=SessionEvent.Type.USER_TOOL_CONFIRMATION, payload=payload
        )
    return resumed(session_id, accepted) if accepted else None


def _session_of(principal: Principal, wanted: ResponseInput) -> Session | None:
    """Return the session that goes on; a fork of it where another response followed already."""
    if wanted.previous_response_id:
        exchange = _find(principal, wanted.previous_response_id, "run")
        session = find_session(principal, exchange.session_id, "run")
        extent = _extent(exchange)
        last = max((frame["seq"] for frame in frames_of(extent)), default=exchange.after)
        if extent.is_over and session.last_seq > last:
            return fork(session, last, principal.user_id)
        return session
    ref = _conversation(wanted)
    return find_session(principal, _id_of(ref, "conv_"), "run") if ref.startswith("conv_") else None


def _conversation(wanted: ResponseInput) -> str:
    ref = wanted.conversation
    return ref.id if isinstance(ref, ConversationRef) else ref or ""


def _session_key(wanted: ResponseInput) -> str | None:
    ref = _conversation(wanted)
    return None if ref.startswith("conv_") else ref or None


def _taken_apart(wanted: ResponseInput) -> tuple[list[PastMessage], str, str]:
    """Return the earlier messages, the new one, and the instructions."""
    outputs = {i.call_id: i.output for i in wanted.items if i.type == "function_call_output"}
    instructions = [wanted.instructions or ""]
    spoken: list[PastMessage] = []
    for item in wanted.items:
        if item.type == "message" and item.role in ("system", "developer"):
            instructions.append(text_of(item.content))
        elif item.type == "message":
            spoken.append(PastMessage(role=item.role, text=text_of(item.content)))
        elif item.type == "function_call":
            call = PastCall(
                call_id=item.call_id,
                name=item.name,
                input=_arguments(item.arguments),
                output=outputs.get(item.call_id, ""),
            )
            spoken.append(PastMessage(role="assistant", text="", calls=[call]))
    text = GO_ON
    if spoken and spoken[-1].role == "user":
        text = spoken.pop().text
    elif not outputs:
        raise Invalid("The input must end with a message of the user.")
    return spoken, text, "\n\n".join(filter(None, instructions))


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        found = text
    return found if isinstance(found, dict) else {"arguments": found}


# ── What is answered ─────────────────────────────────────────────────────────────────────────────


def _extent(exchange: Exchange) -> Extent:
    return Extent(exchange=exchange, client_tools=exchange.client_tools, ends_at_approval=True)


async def _answer(items: ResponseItems, principal: Principal) -> tuple[int, bytes]:
    try:
        for frame in await wait_for_end(items.extent, principal):
            items.consume(frame)
        return 200, orjson.dumps(await read(_body, items))
    except Exception as error:  # noqa: BLE001 # the status is not sent yet, but the thread is gone
        problem = late_problem(error)
        return problem.status, orjson.dumps(error_body(problem))


async def _stream(
    items: ResponseItems, principal: Principal, *, stops: bool = False
) -> AsyncIterator[bytes]:
    number = 0

    def encoded(events: Iterator[dict[str, Any]]) -> bytes:
        nonlocal number
        pieces = []
        for event in events:
            pieces.append(encode_sse({**event, "sequence_number": number}, event=event["type"]))
            number += 1
        return b"".join(pieces)

    try:
        body = await read(_body, items)
        yield encoded(
            {"type": f"response.{name}", "response": body} for name in ("created", "in_progress")
        )
        async with aclosing(follow(items.extent, principal, stops=stops)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                if frame is None:
                    yield SSE_PING
                elif piece := encoded(items.take(frame)):
                    yield piece
        body = await read(_body, items)
        yield encoded(iter([{"type": f"response.{_final(body['status'])}", "response": body}]))
    except Exception as error:  # noqa: BLE001 # the status is sent
        told = error_body(late_problem(error))["error"]
        yield encoded(iter([{"type": "error", **told}]))


def _final(status: str) -> str:
    return status if status in ("completed", "incomplete", "failed") else "incomplete"


def _body(items: ResponseItems, background: bool = False) -> dict[str, Any]:
    """Return the response as it is now, in OpenAI's shape."""
    exchange = items.extent.exchange
    end_if_lost(items.extent)
    run = Run.objects.select_related("session__agent_version").get(pk=exchange.run_id)
    session = run.session
    wishes = exchange.overrides
    used = usage_of(items.extent)
    return {
        "id": f"resp_{exchange.run_id.hex}",
        "object": "response",
        "created_at": int(run.created_at.timestamp()),
        **items.outcome(),
        "background": background,
        "conversation": {"id": f"conv_{session.pk.hex}"},
        "session_id": str(session.pk),
        "instructions": wishes.get("system_prompt"),
        "max_output_tokens": wishes.get("max_tokens"),
        "metadata": {},
        "model": items.model or session.agent_version.name,
        "output": items.output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": True,
        "temperature": wishes.get("temperature"),
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [_tool(one) for one in wishes.get("client_tools") or []],
        "top_p": None,
        "truncation": "disabled",
        "usage": {
            "input_tokens": used["input_tokens"],
            "input_tokens_details": {"cached_tokens": used["cached_tokens"]},
            "output_tokens": used["output_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used["input_tokens"] + used["output_tokens"],
        },
        "user": None,
    }


def _tool(declared: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "name": declared["name"],
        "description": declared.get("description", ""),
        "parameters": declared.get("input_schema", {}),
        "strict": False,
    }
