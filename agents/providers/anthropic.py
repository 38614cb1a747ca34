"""Streams answers of Anthropic's Claude models through the anthropic SDK."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any
from uuid import uuid4

import anthropic
import httpx2
import structlog
from anthropic import APIResponse
from anthropic.types import ModelInfo

from agents.exceptions import ContextOverflow, ProviderFault, ProviderRejected
from agents.providers import failures
from agents.providers.answer_checks import (
    MOST_LISTED,
    AnswerSize,
    checked_models,
    parse_arguments,
)
from agents.providers.base import (
    HISTORY_IS_CUT,
    JSON,
    Delta,
    Message,
    ModelFacts,
    ModelRequest,
    Part,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingState,
    ToolCall,
    ToolResult,
    ToolSpec,
    Truncated,
    Usage,
    estimate_request,
    estimate_tokens,
    names_by_wire_name,
    wire_id,
    wire_name,
)
from agents.providers.http import CONNECT_SECONDS, lines_of
from core.http import retry_after

log = structlog.get_logger(__name__)

#: Marks the end of what the vendor should cache. It reads from the cache what it wrote before.
CACHE_MARK = {"type": "ephemeral"}
#: The limit of an answer when neither the agent nor the catalog knows one.
DEFAULT_ANSWER = 8_192
#: The highest temperature that the vendor accepts.
MAX_TEMPERATURE = 1.0
#: What the note of one block takes, so that an answer of endless blocks is stopped.
BLOCK_SIZE = 50
_CALL_ID = re.compile(r"[A-Za-z0-9_-]+")


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the request's body: tools and instructions first, because they change least."""
    limit = request.max_tokens or request.longest_answer or DEFAULT_ANSWER
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": limit,
        "messages": messages_of(request),
        "stream": True,
    }
    if request.instructions.strip():
        system = {"type": "text", "text": request.instructions, "cache_control": CACHE_MARK}
        body["system"] = [system]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if "system" not in body:
            body["tools"][-1]["cache_control"] = CACHE_MARK
    body |= _thinking_options(request, body)
    if request.response_schema and version_of(request.model) >= SHAPES_SINCE:
        shape = {"type": "json_schema", "schema": _closed(request.response_schema)}
        body["output_config"] = body.get("output_config", {}) | {"format": shape}
    if request.temperature is not None and "thinking" not in body:
        body["temperature"] = min(request.temperature, MAX_TEMPERATURE)
    return body


def messages_of(request: ModelRequest) -> list[JSON]:
    """Convert messages to alternating `user` and `assistant` ones, merging neighbours of one role.

    The last two messages of the person or the tools carry cache marks: the next request reads what
    this one wrote, and this one what the last one wrote.
    """
    messages: list[JSON] = []
    for message in request.messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message))
        if not blocks:
            continue
        if role == "assistant" and not messages:
            messages.append({"role": "user", "content": [_text(HISTORY_IS_CUT)]})
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    for received in [message for message in messages if message["role"] == "user"][-2:]:
        received["content"][-1]["cache_control"] = CACHE_MARK
    return messages


def _blocks(message: Message) -> Iterator[JSON]:
    match message.role:
        case "user":
            # The vendor reads a question best after what it is about.
            yield from map(_part, message.parts)
            if message.text.strip():
                yield _text(message.text)
        case "assistant":
            yield from _assistant_blocks(message)
        case "tool":
            yield from (_result(result) for result in message.results)


def _assistant_blocks(message: Message) -> Iterator[JSON]:
    """Yield thinking, text and calls in the order in which the model sent them."""
    calls = [_call(call) for call in message.calls]
    thinking = _parse_state(message.thinking)
    order = [one["type"] for one in thinking]
    texts = [one["length"] for one in thinking if one["type"] == "text"]
    if sum(texts) != len(message.text) or order.count("call") != len(calls):
        thinking = [one for one in thinking if one["type"] not in {"text", "call"}]
        thinking += [
            {"type": "text", "length": len(message.text)},
            *({"type": "call"},) * len(calls),
        ]
    thought, text, at, said = (
        (message.thinking.text if message.thinking else ""),
        message.text,
        0,
        0,
    )
    for one in thinking:
        match one["type"]:
            case "thinking":
                end = at + one["length"]
                yield {
                    "type": "thinking",
                    "thinking": thought[at:end],
                    "signature": one["signature"],
                }
                at = end
            case "redacted_thinking":
                yield {"type": "redacted_thinking", "data": one["data"]}
            case "text":
                end = said + one["length"]
                if piece := text[said:end].strip():
                    yield _text(piece)
                said = end
            case "call":
                yield calls.pop(0)
            case _:
                pass  # A block of a tool that the vendor runs.


def _parse_state(thinking: Thinking | None) -> list[JSON]:
    """Return the blocks of an answer as `AnswerBlocks` noted them, or none of another vendor's."""
    try:
        state = json.loads(thinking.provider_state) if thinking else {}
        blocks = state["anthropic"] if isinstance(state, dict) and state else []
    except (ValueError, LookupError):
        return []
    return list(blocks)


def _text(text: str) -> JSON:
    return {"type": "text", "text": text}


def _part(part: Part) -> JSON:
    source = {"type": "base64", "media_type": part.media_type, "data": part.base64}
    if part.type == "image":
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": part.name}


def _call(call: ToolCall) -> JSON:
    return {
        "type": "tool_use",
        "id": _wire_id(call.call_id),
        "name": wire_name(call.name),
        "input": call.arguments,
    }


def _result(result: ToolResult) -> JSON:
    block: JSON = {"type": "tool_result", "tool_use_id": _wire_id(result.call_id)}
    content = [_text(result.output)] if result.output.strip() else []
    if content := [*content, *map(_part, result.parts)]:
        block["content"] = content
    return block | ({"is_error": True} if result.is_error else {})


def _wire_id(call_id: str) -> str:
    if _CALL_ID.fullmatch(call_id):
        return wire_id(call_id)
    return f"call_{sha256(call_id.encode()).hexdigest()[:32]}"


def _tool(tool: ToolSpec) -> JSON:
    return {
        "name": wire_name(tool.name),
        "description": tool.description,
        "input_schema": tool.json_schema,
    }


# ── Thinking ─────────────────────────────────────────────────────────────────────────────────────

#: The first version that decides by itself how much to think; older ones are given a budget.
ADAPTIVE_SINCE = (4, 6)
#: The budgets of older models, in tokens. They must leave room for the answer.
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
SMALLEST_BUDGET = 1_024
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d)(?:[.-](\d{1,2}))?(?!\d)")


def version_of(model: str) -> tuple[int, int]:
    """Return the version in a model's name. A name without one counts as a new model."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


def _thinking_options(request: ModelRequest, body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that say how much to think. None for a model that is to decide itself."""
    match request.effort:
        case None:
            return {}
        case "off":
            return {"thinking": {"type": "disabled"}}
        case effort if version_of(request.model) >= ADAPTIVE_SINCE:
            return {
                # By default new models leave their thoughts out.
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": effort},
            }
        case effort:
            budget = min(BUDGETS[effort], body["max_tokens"] // 2)
            if budget < SMALLEST_BUDGET or _began_without_thinking(body["messages"]):
                return {}
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}


#: The first version that can be held to a JSON Schema, and the keywords that it refuses in one.
SHAPES_SINCE = (4, 5)
REFUSED_KEYWORDS = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
        "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
        "$schema",
    }
)  # fmt: skip


def _closed(node: Any) -> Any:
    """Return a schema as the vendor takes it: objects closed, and without bounds.

    What it leaves out is checked when the answer is there.
    """
    if isinstance(node, list):
        return [_closed(part) for part in node]
    if not isinstance(node, dict):
        return node
    closed: dict[str, Any] = {}
    for name, part in node.items():
        if name in {"properties", "$defs", "definitions"} and isinstance(part, dict):
            closed[name] = {key: _closed(one) for key, one in part.items()}
        elif name in {"enum", "const", "default", "examples"}:
            closed[name] = part
        elif name not in REFUSED_KEYWORDS:
            closed[name] = _closed(part)
    if node.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


def _began_without_thinking(messages: list[JSON]) -> bool:
    """Return whether the model is in the middle of calls that it began without thinking.

    Older models refuse to begin to think there.
    """
    spoken = [message for message in messages if message["role"] == "assistant"]
    answered = {block["type"] for block in messages[-1]["content"]} if messages else set()
    if not spoken or "tool_result" not in answered:
        return False
    return spoken[-1]["content"][0]["type"] not in {"thinking", "redacted_thinking"}


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────

VENDOR = "Anthropic"
#: The status of an error inside a stream, by its type.
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
#: Fields that only some models know. They are left out for a model that refuses them.
OPTIONAL = ("temperature", "thinking", "output_config")
#: How the vendor names a field in its complaint, if by another name.
_COMPLAINTS = {"output_config": ("output_config", "effort")}
_UNKNOWN_FIELD = ("not support", "unsupported", "deprecated", "not permitted", "extra inputs")


@contextmanager
def translate_errors(key: str) -> Iterator[None]:
    """Turn the SDK's errors into faults, without the SDK's message, which may quote the key."""
    try:
        yield
    except anthropic.APIStatusError as error:
        wait = retry_after(error.response.headers)
        raise _fault(error.body, error.status_code, key, str(error.message), wait) from None
    except anthropic.APIConnectionError as error:
        cause = error.__cause__
        raise failures.unreachable(
            VENDOR, cause if isinstance(cause, Exception) else error, key
        ) from None
    except json.JSONDecodeError:
        raise failures.cut_short(VENDOR) from None
    except httpx2.InvalidURL as error:
        raise ProviderRejected(f"The address of the server is not valid: {error}") from None
    except (httpx2.HTTPError, httpx2.StreamError, anthropic.AnthropicError, OSError) as error:
        raise failures.unreachable(VENDOR, error, key) from None
    except failures.UNREADABLE:
        log.warning("answer_not_readable", vendor=VENDOR, exc_info=True)
        raise failures.malformed(VENDOR) from None


def _fault(
    body: object, status: int, key: str, otherwise: str = "", wait: float | None = None
) -> ProviderFault:
    """Return the fault for an error's body: `{"type": "error", "error": {"type", "message"}}`."""
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    return failures.fault_of(
        failures.Refusal(
            vendor=VENDOR,
            status=status,
            message=str(error.get("message") or otherwise),
            reason=str(error.get("type") or ""),
            retry_after=wait,
            secret=key,
        )
    )


def refused_option(error: anthropic.APIStatusError, sent: Iterable[str]) -> str | None:
    """Return which of the sent fields this error says the model does not take, if any."""
    complaint = str(error.message).lower()
    if not any(word in complaint for word in _UNKNOWN_FIELD):
        return None
    return next(
        (one for one in sent if any(name in complaint for name in _COMPLAINTS.get(one, (one,)))),
        None,
    )


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class AnswerBlocks:
    """Reads the events of one answer, and notes the order of its blocks."""

    names: dict[str, str]
    key: str
    size: AnswerSize = field(default_factory=AnswerSize)
    #: The blocks so far: lengths of texts, signatures, and the arguments of calls.
    blocks: list[JSON] = field(default_factory=list)
    usage: Usage | None = None
    stop_reason: str | None = None
    refusal: str = ""
    answered: bool = False
    #: All text and arguments, to estimate tokens when the server does not count.
    written: list[str] = field(default_factory=list)

    def read(self, event: JSON) -> Iterator[Delta]:
        match event["type"]:
            case "message_start":
                self._count(event["message"].get("usage"))
            case "content_block_start":
                yield from self._begin(event["content_block"])
            case "content_block_delta":
                yield from self._continue(event["delta"])
            case "content_block_stop":
                yield from self._finish_block()
            case "message_delta":
                self._count(event.get("usage"))
                self.stop_reason = event["delta"].get("stop_reason") or self.stop_reason
                details = event["delta"].get("stop_details") or {}
                self.refusal = str(details.get("explanation") or details.get("category") or "")
            case "error":
                kind = str((event.get("error") or {}).get("type") or "")
                raise _fault(event, STATUSES.get(kind, 500), self.key)
            case _:
                pass  # A ping, or an event of a later version.

    def _begin(self, block: JSON) -> Iterator[Delta]:
        kind = block["type"]
        self.size.add_state(BLOCK_SIZE)
        self.blocks.append({"type": kind})
        match kind:
            case "text":
                self.blocks[-1]["length"] = 0
                yield from self._add_text(block.get("text") or "")
            case "thinking":
                self.blocks[-1] |= {"length": 0, "signature": ""}
                yield from self._add_thought(block.get("thinking") or "")
            case "redacted_thinking":
                self.size.add_state(len(block["data"]))
                self.blocks[-1]["data"] = block["data"]
            case "tool_use":
                self.size.add_call()
                given = block.get("input")
                self.blocks[-1] |= {"id": block.get("id"), "name": block["name"], "given": given}
            case _:
                pass

    def _continue(self, delta: JSON) -> Iterator[Delta]:
        match delta["type"]:
            case "text_delta":
                yield from self._add_text(delta["text"])
            case "thinking_delta":
                yield from self._add_thought(delta["thinking"])
            case "signature_delta":
                self.size.add_state(len(delta["signature"]))
                self.blocks[-1]["signature"] += delta["signature"]
            case "input_json_delta":
                self.size.add_arguments(len(delta["partial_json"]))
                self.blocks[-1].setdefault("pieces", []).append(delta["partial_json"])
            case _:
                pass

    def _add_text(self, text: str) -> Iterator[Delta]:
        if text:
            self.size.add_text(len(text))
            self.blocks[-1]["length"] += len(text)
            self.written.append(text)
            self.answered = True
            yield TextDelta(text=text)

    def _add_thought(self, text: str) -> Iterator[Delta]:
        if text:
            self.size.add_thinking(len(text))
            self.blocks[-1]["length"] += len(text)
            yield ThinkingDelta(text=text)

    def _finish_block(self) -> Iterator[Delta]:
        block = self.blocks[-1]
        if block["type"] != "tool_use":
            return
        text = "".join(block.get("pieces", ()))
        given = block["given"] if isinstance(block["given"], dict) else {}
        name = str(block["name"])
        self.written += [name, text]
        self.answered = True
        self.blocks[-1] = {"type": "call"}
        yield ToolCall(
            call_id=block["id"] or f"call_{uuid4().hex}",
            name=self.names.get(name, name),
            arguments=parse_arguments(text) if text else given,
        )

    def state(self) -> Iterator[Delta]:
        """Yield the order of the blocks, if there is thinking to send back."""
        if any("thinking" in block["type"] for block in self.blocks):
            yield ThinkingState(provider_state=json.dumps({"anthropic": self.blocks}))

    def _count(self, counts: JSON | None) -> None:
        """Take the counts of an event. Later ones replace earlier ones, and may lack some."""
        if not counts:
            return
        last = self.usage or Usage()
        read = counts.get("cache_read_input_tokens")
        written = counts.get("cache_creation_input_tokens")
        read = last.cache_read_tokens if read is None else read
        written = last.cache_write_tokens if written is None else written
        fresh = counts.get("input_tokens")
        if fresh is None:
            fresh = last.input_tokens - last.cache_read_tokens - last.cache_write_tokens
        output = counts.get("output_tokens")
        self.usage = Usage(
            input_tokens=max(fresh, 0) + max(read, 0) + max(written, 0),
            output_tokens=last.output_tokens if output is None else output,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )

    def check_end(self) -> None:
        """Raise unless the stream says why it ended and, without an answer, ended well."""
        if self.stop_reason is None:
            raise failures.cut_short(VENDOR)
        if self.answered:
            return
        match self.stop_reason:
            case "max_tokens":
                raise failures.empty_answer(VENDOR)
            case "model_context_window_exceeded":
                raise ContextOverflow(f"{VENDOR} ended the answer: the context window is full.")
            case "refusal":
                why = f": {failures.scrub(self.refusal, self.key)}" if self.refusal else ""
                raise ProviderRejected(f"{VENDOR} refused to answer{why}.")
            case _:
                pass


def events_of(pieces: Iterable[bytes]) -> Iterator[JSON]:
    """Yield the events of one answer as plain dictionaries, up to the last one.

    Building the SDK's models takes most of the time of a token.
    """
    lines = lines_of(pieces)
    for line in lines:
        name, _, data = line.partition(b":")
        if name == b"data" and data.strip():
            event = json.loads(data)
            yield event
            if event["type"] == "message_stop":
                # The answer is complete; a connection that breaks now just cannot be reused.
                with suppress(httpx2.HTTPError):
                    deque(lines, maxlen=0)
                return


ANTHROPIC_URL = "https://api.anthropic.com"


class AnthropicProvider:
    """Streams messages of Claude models. Can be shared between threads."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        timeout: float,
        http_client: httpx2.Client,
    ) -> None:
        self._key = api_key
        self._client = anthropic.Anthropic(
            api_key=api_key,
            base_url=base_url or ANTHROPIC_URL,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            max_retries=0,
            http_client=http_client,
        )
        # Pairs of model and field that the vendor has refused.
        self._refused: set[tuple[str, str]] = set()

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer. Closing the iterator closes the connection."""
        answer = AnswerBlocks(names=names_by_wire_name(request.tools), key=self._key)
        calls: list[ToolCall] = []
        with translate_errors(self._key):
            with self._open(body_of(request)) as events:
                for event in events:
                    for delta in answer.read(event):
                        if isinstance(delta, ToolCall):
                            calls.append(delta)
                        else:
                            yield delta
            if answer.usage and not answer.answered:
                yield answer.usage  # Thinking is paid for even without an answer.
            answer.check_end()
            yield from answer.state()
            # Only now: an answer that broke off must not call anything.
            yield from calls
            if answer.stop_reason in {"max_tokens", "model_context_window_exceeded"}:
                yield Truncated()
            yield answer.usage or _guess(request, answer)

    @contextmanager
    def _open(self, body: dict[str, Any]) -> Iterator[Iterator[JSON]]:
        """Yield the events of an answer. Leaving the block early closes the connection."""
        with ExitStack() as opened:
            response = self._send(body, opened)
            yield events_of(response.iter_bytes())

    def _send(self, body: dict[str, Any], opened: ExitStack) -> APIResponse[Any]:
        """Send the request without the fields that the model has refused."""
        body = {
            name: value
            for name, value in body.items()
            if (body["model"], name) not in self._refused
        }
        while True:
            # The SDK no longer has an argument for the temperature, which older models take.
            extra = {name: body[name] for name in ("temperature",) if name in body}
            known = {name: value for name, value in body.items() if name not in extra}
            streaming = self._client.messages.with_streaming_response
            try:
                return opened.enter_context(streaming.create(**known, extra_body=extra or None))
            except anthropic.BadRequestError as error:
                refused = refused_option(error, [one for one in OPTIONAL if one in body])
                if refused is None:
                    raise
                self._refused.add((body["model"], refused))
                del body[refused]

    def check(self, model: str) -> None:
        """Check that this key may use this model. The request is free."""
        with translate_errors(self._key):
            if model:
                self._client.models.retrieve(model)
            else:
                self._client.models.list(limit=1)

    def list_models(self) -> dict[str, ModelFacts]:
        """Return the models that the vendor lists, with the facts that it tells."""
        with translate_errors(self._key):
            listed = list(islice(self._client.models.list(limit=1_000), MOST_LISTED))
            return checked_models((one.id, _told_facts(one)) for one in listed)


def _told_facts(model: ModelInfo) -> dict[str, object]:
    able = model.capabilities
    return {
        "window": model.max_input_tokens,
        "max_output": model.max_tokens,
        "tools": True,
        "images": able.image_input.supported if able else None,
        "files": able.pdf_input.supported if able else None,
    }


def _guess(request: ModelRequest, answer: AnswerBlocks) -> Usage:
    written = estimate_tokens("".join(answer.written))
    return Usage(input_tokens=estimate_request(request), output_tokens=written)
