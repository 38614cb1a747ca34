"""The rules by which OpenAI's chat completions refuse requests, with its messages."""

from __future__ import annotations

import json

from tests.wire.answers import JSON, BadRequest
from tests.wire.contents import check_content
from tests.wire.schemas import check_tool, only_known

NAME = r"[a-zA-Z0-9_-]{1,64}"
ID_LENGTH = 40
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
REQUEST_FIELDS = frozenset(
    {
        "model", "messages", "stream", "stream_options", "tools", "tool_choice", "temperature",
        "max_tokens", "max_completion_tokens", "top_p", "stop", "n", "parallel_tool_calls",
        "reasoning_effort", "response_format",
    }
)  # fmt: skip


def check_request(body: JSON) -> None:
    """Raise the error that OpenAI would answer."""
    only_known(body, REQUEST_FIELDS, "body")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("[] is too short - 'messages'", param="messages")
    for number, message in enumerate(messages):
        _check_message(message, f"messages.[{number}]")
    _check_pairs(messages)
    _check_tools(body)
    if "stream_options" in body and not body.get("stream"):
        raise BadRequest("'stream_options' is only allowed when 'stream' is enabled.")
    if not 0 <= body.get("temperature", 1) <= 2:
        raise BadRequest("Invalid 'temperature': decimal above maximum value.", param="temperature")
    if body.get("reasoning_effort", "none") not in {"none", "minimal", "low", "medium", "high"}:
        raise BadRequest("Invalid value for 'reasoning_effort'.", param="reasoning_effort")
    for field in ("max_tokens", "max_completion_tokens"):
        if body.get(field, 1) < 1:
            raise BadRequest(f"Invalid '{field}': integer below minimum value.", param=field)


def _check_message(message: JSON, where: str) -> None:
    role = message.get("role")
    if role not in ROLES:
        raise BadRequest(f"Invalid value: {role!r}. Supported values are {sorted(ROLES)}.")
    content, calls = message.get("content"), message.get("tool_calls")
    if role == "user" and isinstance(content, list) and content:
        for part in content:
            _check_part(part, where)
        content = ""
    if not isinstance(content, str) and not (role == "assistant" and calls and content is None):
        raise BadRequest(f"Invalid value for 'content': expected a string, got {content!r}.")
    if calls is not None:
        if role != "assistant" or not calls:
            raise BadRequest(f"[] is too short - '{where}.tool_calls'")
        for call in calls:
            _check_call(call, where)


def _check_part(part: JSON, where: str) -> None:
    match part.get("type"):
        case "text":
            if not isinstance(part.get("text"), str):
                raise BadRequest(f"Missing required parameter: '{where}.content.text'.")
        case "image_url":
            head, _, data = part["image_url"]["url"].partition(";base64,")
            check_content(head.removeprefix("data:"), data, where)
        case "file":
            head, _, data = part["file"]["file_data"].partition(";base64,")
            if head != "data:application/pdf" or not part["file"].get("filename"):
                raise BadRequest(f"Invalid '{where}.content.file': expected a named PDF.")
            check_content("application/pdf", data, where)
        case "input_audio":
            check_content(
                f"audio/{part['input_audio']['format']}", part["input_audio"]["data"], where
            )
        case kind:
            raise BadRequest(f"Invalid value: {kind!r} in '{where}.content'.")


def _check_call(call: JSON, where: str) -> None:
    function = call.get("function") or {}
    if call.get("type") != "function" or not isinstance(function.get("arguments"), str):
        raise BadRequest(f"Invalid type for '{where}.tool_calls': arguments must be a string.")
    if not call.get("id") or len(call["id"]) > ID_LENGTH:
        raise BadRequest(f"Invalid '{where}.tool_calls.id': string too long, maximum {ID_LENGTH}.")
    check_tool(function.get("name"), None, pattern=NAME, seen=set())
    try:
        json.loads(function["arguments"])
    except ValueError:
        raise BadRequest(f"Invalid '{where}.tool_calls': arguments are not valid JSON.") from None


def _check_pairs(messages: list[JSON]) -> None:
    """Require one tool message right after every call, and a call for every tool message."""
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            called = message.get("tool_call_id")
            if called not in open_ids:
                raise BadRequest(
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    f"preceeding message with 'tool_calls'. ({called})"
                )
            open_ids.remove(called)
            continue
        _none_open(open_ids)
        open_ids = [call["id"] for call in message.get("tool_calls") or []]
        if len(set(open_ids)) != len(open_ids):
            raise BadRequest("Duplicate value for 'tool_call_id'.")
    _none_open(open_ids)


def _none_open(ids: list[str]) -> None:
    if ids:
        raise BadRequest(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to "
            "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(ids)}"
        )


def _check_tools(body: JSON) -> None:
    if body.get("tools") == []:
        raise BadRequest("[] is too short - 'tools'", param="tools")
    seen: set[str] = set()
    for tool in body.get("tools") or []:
        if tool.get("type") != "function":
            raise BadRequest("Invalid value for 'tools.type': expected 'function'.")
        function = tool.get("function") or {}
        check_tool(function.get("name"), function.get("parameters"), pattern=NAME, seen=seen)
