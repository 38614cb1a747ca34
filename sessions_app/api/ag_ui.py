"""The AG-UI door at /ag-ui/{agent}/: front ends that speak the Agent User Interaction Protocol 1.0.

A thread is the session of this key. Only what is new is taken from a request: the last message of the
user, results of the front end's tools, or answers to approvals, which are interrupts here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from django.http import StreamingHttpResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from agents.definitions import find_agent
from agents.models import Agent
from core.db import read
from core.exceptions import Invalid
from core.responses import SSE_PING, encode_sse, event_stream
from core.rest import StrictJSONParser, json_object
from core.validation import read_input
from sessions_app.accept import accept_event, client_dedupe_key
from sessions_app.api.events import EventStreamRenderer
from sessions_app.api.openai.base import AnswerText, client_tool, failure_of, late_problem
from sessions_app.exchange import Exchange, Extent, answer_calls, ask, follow, resumed, usage_of
from sessions_app.live.frames import Body
from sessions_app.models import SessionEvent
from sessions_app.runtime import get_or_create_session
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

VERSION = "1.0"
Event = dict[str, Any]
EventType = SessionEvent.Type
#: What an approval expects as the payload of its answer.
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["allow", "deny"]},
        "note": {"type": "string"},
    },
    "required": ["decision"],
}


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class TextPart(Part):
    type: Literal["text"]
    text: str


class Message(Part):
    role: str
    content: str | list[TextPart] | None = None
    tool_call_id: str = ""
    error: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n\n".join(part.text for part in self.content)
        return self.content or ""


class Tool(Part):
    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class ContextItem(Part):
    description: str
    value: str


class ResumeEntry(Part):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(Part):
    thread_id: str = Field(min_length=1, max_length=200)
    run_id: str = Field(max_length=200)
    messages: list[Message]
    tools: list[Tool] = []
    context: list[ContextItem] = []
    resume: list[ResumeEntry] = []


class AgUiView(APIView):
    parser_classes = [StrictJSONParser]
    renderer_classes = [EventStreamRenderer, JSONRenderer]
    schema = None

    def post(self, request: Request, agent: str) -> StreamingHttpResponse:
        """Run the agent on what is new in a thread, and stream what follows."""
        principal = principal_of(request)
        found = find_agent(authorise(principal, "run"), agent)
        wanted = read_input(RunAgentInput, json_object(request))
        exchange = _begin(principal, found, wanted, request.headers.get("Idempotency-Key"))
        extent = Extent(
            exchange=exchange,
            client_tools={tool.name for tool in wanted.tools},
            ends_at_approval=True,
        )
        return event_stream(_stream(AgUiEvents(wanted=wanted, extent=extent), principal))


def _begin(principal: Principal, agent: Agent, wanted: RunAgentInput, key: str | None) -> Exchange:
    if wanted.resume:
        return _resume(principal, agent, wanted)
    last = wanted.messages[-1] if wanted.messages else None
    if last and last.role == "tool":
        results = {m.tool_call_id: m.error or m.text for m in wanted.messages if m.role == "tool"}
        if found := answer_calls(principal, results):
            return found
        raise Invalid("No call of this thread waits for these results.")
    if last is None or last.role != "user":
        raise Invalid("The last message must be the user's, or the result of a tool.")
    overrides = {
        "client_tools": [
            client_tool(tool.name, tool.description, tool.parameters).model_dump()
            for tool in wanted.tools
        ],
        "system_prompt": "\n".join(f"{item.description}: {item.value}" for item in wanted.context),
    }
    return ask(
        principal,
        agent,
        last.text,
        session_key=wanted.thread_id,
        metadata={"client": "ag-ui"},
        dedupe_key=client_dedupe_key(principal, key),
        overrides={name: value for name, value in overrides.items() if value} or None,
    )


def _resume(principal: Principal, agent: Agent, wanted: RunAgentInput) -> Exchange:
    session, _ = get_or_create_session(agent, wanted.thread_id, principal=principal)
    accepted = None
    for entry in wanted.resume:
        given = entry.payload if isinstance(entry.payload, dict) else {}
        allows = entry.status == "resolved" and given.get("decision") == "allow"
        payload = {
            "tool_use_id": entry.interrupt_id,
            "decision": "allow" if allows else "deny",
            "note": str(given.get("note") or ""),
        }
        accepted = accept_event(
            principal, session, type=EventType.USER_TOOL_CONFIRMATION, payload=payload
        )
    if accepted is None:
        raise Invalid("`resume` is empty.")
    return resumed(session.pk, accepted)


async def _stream(events: AgUiEvents, principal: Principal) -> AsyncIterator[bytes]:
    try:
        yield encode_sse(events.started())
        async with aclosing(follow(events.extent, principal, stops=True)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                if frame is None:
                    yield SSE_PING
                elif piece := b"".join(map(encode_sse, events.take(frame))):
                    yield piece
        yield b"".join(map(encode_sse, events.close()))
        yield encode_sse(await read(events.finished))
    except Exception as error:  # noqa: BLE001 # the status is sent
        problem = late_problem(error)
        yield encode_sse({"type": "RUN_ERROR", "message": problem.detail, "code": problem.code})


@dataclass(kw_only=True)
class AgUiEvents:
    """Turns the frames of an exchange into the events of one run."""

    wanted: RunAgentInput
    extent: Extent
    _text: AnswerText = field(default_factory=AnswerText)
    _frames: list[Body] = field(default_factory=list)
    #: The message that is open, if any. Calls and messages must not overlap.
    _open: str = ""

    @property
    def _ids(self) -> Event:
        return {"threadId": self.wanted.thread_id, "runId": self.wanted.run_id}

    def started(self) -> Event:
        return {"type": "RUN_STARTED", **self._ids, "protocolVersion": VERSION}

    def take(self, frame: Body) -> Iterator[Event]:
        if frame["seq"] is not None:
            self._frames.append(frame)
        match frame["metadata"].get("event_type"):
            case EventType.AGENT_MESSAGE:
                yield from self._message(frame)
            case EventType.AGENT_TOOL_USE | EventType.AGENT_CUSTOM_TOOL_USE:
                yield from self.close()
                yield from self._call(frame)
            case EventType.AGENT_TOOL_RESULT:
                yield from self.close()
                yield self._result(frame)
            case _:
                pass

    def _message(self, frame: Body) -> Iterator[Event]:
        message_id, new = frame["metadata"]["event_id"], self._text.take(frame)
        if new and self._open != message_id:
            yield from self.close()
            self._open = message_id
            yield {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}
        if new:
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": new}
        if frame["seq"] is not None:
            yield from self.close()

    def close(self) -> Iterator[Event]:
        """End the open message."""
        if self._open:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._open}
            self._open = ""

    def _call(self, frame: Body) -> Iterator[Event]:
        call_id = frame["metadata"]["tool_use_id"]
        arguments = orjson.dumps(frame["tool_input"]).decode()
        yield {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": frame["tool_name"]}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": call_id}

    def _result(self, frame: Body) -> Event:
        output = frame.get("error") or frame.get("tool_output")
        text = output if isinstance(output, str) else orjson.dumps(output).decode()
        return {
            "type": "TOOL_CALL_RESULT",
            "messageId": frame["metadata"]["event_id"],
            "toolCallId": frame["metadata"]["tool_use_id"],
            "content": text,
            "role": "tool",
        }

    def finished(self) -> Event:
        """Return the last event: how the run ended, and what it used."""
        if problem := failure_of(self.extent, self._frames):
            return {"type": "RUN_ERROR", "message": problem.detail, "code": problem.code}
        used = usage_of(self.extent)
        tokens = {"inputTokens": used["input_tokens"], "outputTokens": used["output_tokens"]}
        return {
            "type": "RUN_FINISHED",
            **self._ids,
            "outcome": self._outcome(),
            "usage": [{**tokens, "totalTokens": sum(tokens.values())}],
        }

    def _outcome(self) -> Event:
        if self.extent.stop_reason in ("interrupted", "archived"):
            return {"type": "cancelled"}
        asked = [call for call in self.extent.calls.values() if self.extent.asks(call)]
        if asked:
            return {"type": "interrupt", "interrupts": [_interrupt(call) for call in asked]}
        waiting = [
            call_id
            for call_id, call in self.extent.calls.items()
            if self.extent.is_for_client(call)
        ]
        return {"type": "success", **({"pendingToolCallIds": waiting} if waiting else {})}


def _interrupt(call: Body) -> Event:
    call_id = call["metadata"]["tool_use_id"]
    return {
        "id": call_id,
        "reason": "approval",
        "message": f"Allow {call['tool_name']} {orjson.dumps(call['tool_input']).decode()}?",
        "toolCallId": call_id,
        "responseSchema": ANSWER_SCHEMA,
    }
