"""The conversation in the words of OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agents.providers.base import JSON, Message, ModelRequest, ToolCall, ToolResult, ToolSpec
from agents.providers.names import wire_id, wire_name


def body_of(request: ModelRequest) -> dict[str, Any]:
    """The request's body. Nothing is sent that was not asked for: servers differ in what they know."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": list(_messages(request)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    return body


def _messages(request: ModelRequest) -> Iterator[JSON]:
    if request.instructions:
        yield {"role": "system", "content": request.instructions}
    for message in request.messages:
        match message.role:
            case "user":
                yield {"role": "user", "content": message.text}
            case "assistant":
                if message.text or message.calls:
                    yield _assistant(message)
            case "tool":
                yield from (_result(result) for result in message.results)


def _assistant(message: Message) -> JSON:
    spoken: JSON = {"role": "assistant", "content": message.text or None}
    if message.calls:
        spoken["tool_calls"] = [_call(call) for call in message.calls]
    return spoken


def _call(call: ToolCall) -> JSON:
    return {
        "id": wire_id(call.call_id),
        "type": "function",
        "function": {"name": wire_name(call.name), "arguments": json.dumps(call.arguments)},
    }


def _result(result: ToolResult) -> JSON:
    # The format has no field for failure, so the text must say it.
    told = f"Error: {result.output}" if result.is_error else result.output
    return {"role": "tool", "tool_call_id": wire_id(result.call_id), "content": told}


def _tool(tool: ToolSpec) -> JSON:
    return {
        "type": "function",
        "function": {
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": tool.json_schema,
        },
    }
