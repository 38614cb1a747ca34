"""Chat completions: a conversation in, the agent's next message out, as a stream or as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
from django.http import HttpResponseBase
from pydantic import Field
from rest_framework.request import Request

from core.db import read
from core.exceptions import Invalid
from core.responses import SSE_PING, AwaitedResponse, encode_sse, event_stream
from sessions_app.accept import client_dedupe_key
from sessions_app.api.openai.base import (
    CUT,
    AnswerText,
    Content,
    Lenient,
    ModelName,
    OpenAIView,
    client_tool,
    error_body,
    failure_of,
    late_problem,
    overrides_of,
    read_body,
    refuse_forced_tool,
    text_of,
)
from sessions_app.exchange import (
    GO_ON,
    Exchange,
    Extent,
    PastCall,
    PastMessage,
    answer_calls,
    ask,
    follow,
    usage_of,
    wait_for_end,
)
from sessions_app.live.frames import Body
from tenants.access import Principal
from tools_app.workspace_tools import ClientTool

#: Names the session that a conversation goes on in. Without it every request stands for itself.
SESSION_HEADER = "X-Session-Key"
DONE = b"data: [DONE]\n\n"


class FunctionCall(Lenient):
    name: str
    arguments: str = "{}"


class ToolCall(Lenient):
    id: str
    function: FunctionCall


class Message(Lenient):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str = ""


class Function(Lenient):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FunctionTool(Lenient):
    type: Literal["function"]
    function: Function


class StreamOptions(Lenient):
    include_usage: bool = False


class ResponseFormat(Lenient):
    type: Literal["text"]


class ChatInput(Lenient):
    model: str
    messages: list[Message] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: Literal[1] | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Any = None
    response_format: ResponseFormat | None = None
    metadata: dict[str, Any] | None = None

    @property
    def client_tools(self) -> list[ClientTool]:
        if self.tool_choice == "none":
            return []
        functions = [tool.function for tool in self.tools or []]
        return [client_tool(f.name, f.description, f.parameters) for f in functions]


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The messages of a request, taken apart: what was before, and what is new."""

    instructions: str
    past: list[PastMessage]
    text: str
    #: The results of the client's tools, by the ids of their calls.
    results: dict[str, str]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Conversation:
        system = [text_of(m.content) for m in messages if m.role in ("system", "developer")]
        spoken = [message for message in messages if message.role not in ("system", "developer")]
        if not spoken or spoken[-1].role == "assistant":
            raise Invalid("The last message must be the user's, or the result of a tool.")
        results = _last_results(spoken)
        is_question = spoken[-1].role == "user"
        return cls(
            instructions="\n\n".join(filter(None, system)),
            past=_past(spoken[:-1] if is_question else spoken),
            text=text_of(spoken[-1].content) if is_question else GO_ON,
            results={} if is_question else results,
        )


def _last_results(messages: Sequence[Message]) -> dict[str, str]:
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role != "tool":
            break
        results[message.tool_call_id] = text_of(message.content)
    return results


def _past(messages: Sequence[Message]) -> list[PastMessage]:
    outputs = {m.tool_call_id: text_of(m.content) for m in messages if m.role == "tool"}
    return [
        PastMessage(
            role=message.role,
            text=text_of(message.content),
            calls=[_past_call(call, outputs) for call in message.tool_calls or []],
        )
        for message in messages
        if message.role in ("user", "assistant")
    ]


def _past_call(call: ToolCall, outputs: dict[str, str]) -> PastCall:
    try:
        input = orjson.loads(call.function.arguments or "{}")
    except orjson.JSONDecodeError:
        input = {"arguments": call.function.arguments}
    return PastCall(
        call_id=call.id,
        name=call.function.name,
        input=input if isinstance(input, dict) else {"arguments": input},
        output=outputs.get(call.id, ""),
    )


class ChatCompletionsView(OpenAIView):
    def post(self, request: Request) -> HttpResponseBase:
        """Send a conversation to the agent that the request names as its model."""
        wanted = read_body(request, ChatInput)
        refuse_forced_tool(wanted.tool_choice)
        exchange = self._begin(request, wanted)
        extent = Extent(exchange=exchange, client_tools={one.name for one in wanted.client_tools})
        completion = Completion(model=wanted.model, extent=extent)
        if wanted.stream:
            options = wanted.stream_options or StreamOptions()
            return event_stream(_stream(completion, self.principal, options.include_usage))
        principal = self.principal
        return AwaitedResponse(lambda: _answer(completion, principal))

    def _begin(self, request: Request, wanted: ChatInput) -> Exchange:
        """Send what is new: results of the client's tools to the waiting session, else a message."""
        conversation = Conversation.of(wanted.messages)
        if conversation.results:
            found = answer_calls(self.principal, conversation.results)
            if found:
                return found
        name = ModelName.parse(wanted.model)
        key = request.headers.get(SESSION_HEADER) or (wanted.metadata or {}).get("session_key")
        return ask(
            self.principal,
            name.agent,
            conversation.text,
            version=name.version,
            past=[] if key else conversation.past,
            session_key=str(key) if key else None,
            metadata={"client": "openai"},
            dedupe_key=client_dedupe_key(self.principal, request.headers.get("Idempotency-Key")),
            overrides=overrides_of(
                instructions=conversation.instructions,
                tools=wanted.client_tools,
                temperature=wanted.temperature,
                max_tokens=wanted.max_completion_tokens or wanted.max_tokens,
            ),
        )


@dataclass(kw_only=True)
class Completion:
    """The answer to one request, in OpenAI's shape."""

    model: str
    extent: Extent
    text: AnswerText = field(default_factory=AnswerText)
    frames: list[Body] = field(default_factory=list)
    created: int = field(default_factory=lambda: int(datetime.now(UTC).timestamp()))
    _last_message: str = ""

    def take(self, frame: Body) -> str:
        """Take in a frame and return the text that it adds. A blank line parts two messages."""
        if frame["seq"] is not None:
            self.frames.append(frame)
        new = self.text.take(frame)
        if not new:
            return ""
        message = frame["metadata"]["event_id"]
        parts = self._last_message not in ("", message)
        self._last_message = message
        return f"\n\n{new}" if parts else new

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls that the client has to run."""
        waiting = [one for one in self.extent.calls.values() if self.extent.is_for_client(one)]
        return [
            {
                "index": place,
                "id": call["metadata"]["tool_use_id"],
                "type": "function",
                "function": {
                    "name": call["tool_name"],
                    "arguments": orjson.dumps(call["tool_input"]).decode(),
                },
            }
            for place, call in enumerate(waiting)
        ]

    @property
    def finish_reason(self) -> str:
        if self.extent.stop_reason in CUT:
            return "length"
        return "tool_calls" if self.extent.stop_reason == "requires_action" else "stop"

    def body(self, object: str, **fields: Any) -> dict[str, Any]:
        exchange = self.extent.exchange
        return {
            "id": f"chatcmpl-{exchange.run_id.hex}",
            "object": object,
            "created": self.created,
            "model": self.model,
            "session_id": str(exchange.session_id),
            **fields,
        }

    def usage(self) -> dict[str, Any]:
        used = usage_of(self.extent)
        return {
            "prompt_tokens": used["input_tokens"],
            "completion_tokens": used["output_tokens"],
            "total_tokens": used["input_tokens"] + used["output_tokens"],
            "prompt_tokens_details": {"cached_tokens": used["cached_tokens"]},
        }


async def _answer(completion: Completion, principal: Principal) -> tuple[int, bytes]:
    """Return the whole completion once the agent has answered."""
    try:
        text = ""
        for frame in await wait_for_end(completion.extent, principal):
            text += completion.take(frame)
        problem = failure_of(completion.extent, completion.frames)
        if problem is None:
            return 200, orjson.dumps(await read(_whole, completion, text))
    except Exception as error:  # noqa: BLE001 # the status is sent
        problem = late_problem(error)
    return problem.status, orjson.dumps(error_body(problem))


def _whole(completion: Completion, text: str) -> dict[str, Any]:
    calls = [{k: v for k, v in call.items() if k != "index"} for call in completion.calls]
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": completion.finish_reason,
        "logprobs": None,
    }
    return completion.body("chat.completion", choices=[choice], usage=completion.usage())


async def _stream(
    completion: Completion, principal: Principal, include_usage: bool
) -> AsyncIterator[bytes]:
    """Yield the completion in chunks as it comes."""

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return encode_sse(completion.body("chat.completion.chunk", choices=[choice]))

    try:
        yield chunk({"role": "assistant", "content": ""})
        async with aclosing(follow(completion.extent, principal, stops=True)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                if frame is None:
                    yield SSE_PING
                elif text := completion.take(frame):
                    yield chunk({"content": text})
        if problem := failure_of(completion.extent, completion.frames):
            yield encode_sse(error_body(problem))
            return
        if calls := completion.calls:
            yield chunk({"tool_calls": calls})
        yield chunk({}, completion.finish_reason)
        if include_usage:
            usage = await read(completion.usage)
            yield encode_sse(completion.body("chat.completion.chunk", choices=[], usage=usage))
        yield DONE
    except Exception as error:  # noqa: BLE001 # the status is sent
        yield encode_sse(error_body(late_problem(error)))
