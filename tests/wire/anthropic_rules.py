"""The rules by which Anthropic refuses requests, with its messages. Every request is checked whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.wire.answers import JSON, BadRequest
from tests.wire.contents import check_content
from tests.wire.schemas import check_tool, only_known

NAME = r"[a-zA-Z0-9_-]{1,128}"
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
#: The first version with adaptive thinking, and the first that takes neither budgets nor
#: temperatures.
ADAPTIVE, ADAPTIVE_ONLY = (4, 6), (4, 7)
#: The first version that can be held to a schema.
SHAPES = (4, 5)
SMALLEST_BUDGET = 1_024
MOST_MARKS = 4

REQUEST_FIELDS = frozenset(
    {
        "model", "max_tokens", "messages", "stream", "system", "tools", "tool_choice",
        "temperature", "thinking", "output_config", "stop_sequences", "metadata",
    }
)  # fmt: skip
BLOCK_FIELDS = {
    "text": {"text", "cache_control"},
    "image": {"source", "cache_control"},
    "document": {"source", "title", "context", "cache_control"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input", "cache_control"},
    "tool_result": {"tool_use_id", "content", "is_error", "cache_control"},
}
SOURCES = {
    "image": ("image/jpeg", "image/png", "image/gif", "image/webp"),
    "document": ("application/pdf",),
}
OF_ASSISTANT = frozenset({"thinking", "redacted_thinking", "tool_use"})


def check_request(body: JSON, signatures: Mapping[str, str]) -> None:
    """Raise the error that Anthropic would answer. `signatures` holds the issued ones."""
    only_known(body, REQUEST_FIELDS, "body")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        raise BadRequest("max_tokens: Field required")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: at least one message is required")
    for number, message in enumerate(messages):
        _check_message(message, f"messages.{number}")
    _check_turns(messages)
    _check_signatures(messages, signatures)
    _check_thinking(body, messages)
    _check_marks(body)
    seen: set[str] = set()
    for tool in body.get("tools") or []:
        only_known(tool, frozenset({"name", "description", "input_schema", "cache_control"}), "t")
        check_tool(tool.get("name"), tool.get("input_schema"), pattern=NAME, seen=seen)


def version_of(model: str) -> tuple[int, int]:
    found = re.search(r"claude-(?:[a-z]+-)?(\d)(?:-(\d{1,2}))?(?!\d)", model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def blocks_of(message: JSON) -> list[JSON]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_message(message: JSON, where: str) -> None:
    only_known(message, frozenset({"role", "content"}), where)
    if message.get("role") not in {"user", "assistant"}:
        raise BadRequest(f"{where}.role: Input should be 'user' or 'assistant'")
    if not message.get("content"):
        raise BadRequest(f"{where}: all messages must have non-empty content")
    for number, block in enumerate(blocks_of(message)):
        _check_block(block, message["role"], f"{where}.content.{number}")


def _check_block(block: JSON, role: str, where: str) -> None:
    kind = block.get("type")
    if kind not in BLOCK_FIELDS:
        raise BadRequest(f"{where}: Input tag {kind!r} does not match any of the expected tags")
    only_known(block, frozenset(BLOCK_FIELDS[kind] | {"type"}), where)
    _check_role(kind, role, where)
    if kind == "text" and not block["text"]:
        raise BadRequest("messages: text content blocks must be non-empty")
    if kind == "text" and not block["text"].strip():
        raise BadRequest("messages: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        _check_call(block, where)
    if kind in SOURCES:
        _check_source(kind, block.get("source") or {}, where)
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for part in block["content"]:
            if part.get("type") not in {"text", *SOURCES}:
                raise BadRequest(f"{where}.content: unexpected block {part.get('type')!r}")
            _check_block(part, role, where)


def _check_call(block: JSON, where: str) -> None:
    if not CALL_ID.fullmatch(block.get("id", "")):
        raise BadRequest(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("input"), dict):
        raise BadRequest(f"{where}.tool_use.input: Input should be a valid dictionary")


def _check_role(kind: str, role: str, where: str) -> None:
    if kind in OF_ASSISTANT and role != "assistant":
        raise BadRequest(f"{where}: {kind} blocks can only be in assistant messages")
    if kind == "tool_result" and role != "user":
        raise BadRequest(f"{where}: tool_result blocks can only be in user messages")


def _check_source(kind: str, source: JSON, where: str) -> None:
    only_known(source, frozenset({"type", "media_type", "data"}), where)
    if source.get("media_type") not in SOURCES[kind]:
        raise BadRequest(f"{where}.source.media_type: Input should be one of {SOURCES[kind]}")
    check_content(source["media_type"], source.get("data"), where)


def _check_turns(messages: list[JSON]) -> None:
    if messages[0]["role"] != "user":
        raise BadRequest("messages: first message must use the user role")
    if messages[-1]["role"] != "user":
        raise BadRequest(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
    asked: set[str] = set()
    for number, message in enumerate(messages):
        results = [b["tool_use_id"] for b in blocks_of(message) if b["type"] == "tool_result"]
        if missing := asked - set(results):
            raise BadRequest(
                f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(sorted(missing))}."
            )
        if unknown := set(results) - asked:
            raise BadRequest(
                f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{', '.join(sorted(unknown))}."
            )
        if len(results) != len(set(results)):
            raise BadRequest("each tool_use must have a single result")
        kinds = [block["type"] for block in blocks_of(message)]
        if results and kinds[: len(results)] != ["tool_result"] * len(results):
            raise BadRequest("tool_result blocks must come first in the content")
        asked = {b["id"] for b in blocks_of(message) if b["type"] == "tool_use"}


def _check_signatures(messages: list[JSON], issued: Mapping[str, str]) -> None:
    for number, message in enumerate(messages):
        for block in blocks_of(message):
            if block["type"] == "thinking" and issued.get(block["signature"]) != block["thinking"]:
                raise BadRequest(
                    f"messages.{number}: Invalid `signature` in `thinking` block, or the block was "
                    "modified. These blocks must remain as they were in the original response."
                )


def _check_thinking(body: JSON, messages: list[JSON]) -> None:
    version = version_of(body["model"])
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if kind == "enabled" and version >= ADAPTIVE_ONLY:
        raise BadRequest(
            '"thinking.type.enabled" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if kind == "adaptive" and version < ADAPTIVE:
        raise BadRequest("adaptive thinking is not supported on this model")
    if (body.get("output_config") or {}).get("effort") and version < ADAPTIVE:
        raise BadRequest("This model does not support the effort parameter.")
    _check_shape(body.get("output_config") or {}, version)
    if "temperature" in body:
        if version >= ADAPTIVE_ONLY:
            raise BadRequest("`temperature` is deprecated for this model.")
        if not 0 <= body["temperature"] <= 1:
            raise BadRequest("temperature: range: 0..1")
        if kind in {"enabled", "adaptive"} and body["temperature"] != 1:
            raise BadRequest("`temperature` may only be set to 1 when thinking is enabled.")
    if kind == "enabled":
        _check_budget(thinking, body, messages)


def _check_shape(config: JSON, version: tuple[int, int]) -> None:
    only_known(config, frozenset({"effort", "format"}), "output_config")
    if form := config.get("format"):
        if version < SHAPES:
            raise BadRequest("output_config.format: not supported by this model.")
        _check_closed(form["schema"])


def _check_closed(node: object) -> None:
    if isinstance(node, list):
        for part in node:
            _check_closed(part)
    elif isinstance(node, dict):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            raise BadRequest(
                "output_config.format.schema: For 'object' type, 'additionalProperties' must be "
                "explicitly set to false"
            )
        if refused := {"minimum", "maximum", "minLength", "maxLength"} & set(node):
            raise BadRequest(
                f"output_config.format.schema: property {min(refused)!r} is not supported"
            )
        for name, part in node.items():
            _check_closed(list(part.values()) if name == "properties" else part)


def _check_budget(thinking: JSON, body: JSON, messages: list[JSON]) -> None:
    budget = thinking.get("budget_tokens", 0)
    if budget < SMALLEST_BUDGET:
        raise BadRequest(f"thinking.enabled.budget_tokens: should be >= {SMALLEST_BUDGET}")
    if budget >= body["max_tokens"]:
        raise BadRequest("`max_tokens` must be greater than `thinking.budget_tokens`.")
    in_calls = any(block["type"] == "tool_result" for block in blocks_of(messages[-1]))
    spoken = [message for message in messages if message["role"] == "assistant"]
    if in_calls and "thinking" not in blocks_of(spoken[-1])[0]["type"]:
        raise BadRequest(
            "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block."
        )


def _check_marks(body: JSON) -> None:
    marks = sum("cache_control" in block for block in _markable(body))
    if marks > MOST_MARKS:
        raise BadRequest(
            f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {marks}."
        )


def _markable(body: JSON) -> Iterator[dict[str, Any]]:
    system = body.get("system") or []
    yield from [] if isinstance(system, str) else system
    yield from body.get("tools") or []
    for message in body["messages"]:
        yield from blocks_of(message)
