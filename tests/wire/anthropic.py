"""A server that speaks Anthropic's Messages API and refuses what Anthropic refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, ClassVar
from urllib.parse import urlsplit
from uuid import uuid4

from tests.wire.answers import JSON, Answer, BadRequest, Call, Counts, Refuse, Reply, Script
from tests.wire.anthropic_rules import check_request
from tests.wire.exchange import Exchange
from tests.wire.server import Wire

MODELS = ("claude-sonnet-5-5", "claude-opus-4-6", "claude-haiku-4-5", "claude-3-5-haiku-latest")
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
#: Arguments are streamed in pieces of this many characters.
PIECE = 7
_PATH = re.compile(r"/v1/models(?:/(?P<model>[^/]+))?")


class AnthropicWire(Wire):
    """Answers `messages`, lists models, and records the signatures that it issued."""

    ESCAPES: ClassVar[bool] = False
    NAMED: ClassVar[bool] = True

    def __init__(
        self,
        script: Iterable[Reply] | Script = (),
        *,
        key: str = "test-key-0123456789",
        otherwise: Reply | None = None,
        models: tuple[str, ...] = MODELS,
    ) -> None:
        super().__init__(script, key=key, otherwise=otherwise)
        self.models = models
        #: Thoughts by the signature that was issued for them.
        self.signatures: dict[str, str] = {}

    def respond(self, exchange: Exchange) -> None:
        headers = exchange.received.headers
        if "anthropic-version" not in headers:
            raise BadRequest("anthropic-version: header is required")
        # The vendor takes a key in either header.
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if (sent := headers.get("x-api-key") or bearer) != self.key:
            raise BadRequest(f"invalid x-api-key: {sent}", status=401)
        path = urlsplit(exchange.received.path).path
        match = _PATH.fullmatch(path)
        if exchange.received.method == "GET" and match:
            self._list(exchange, match["model"])
        elif exchange.received.method == "POST" and path == "/v1/messages":
            self._answer(exchange)
        else:
            raise BadRequest("Not found", status=404)

    def error_body(self, refusal: Refuse, param: str = "") -> JSON:
        kind = refusal.code or ERROR_TYPES.get(
            refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error"
        )
        error = {"type": kind, "message": refusal.message}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def _list(self, exchange: Exchange, model: str | None) -> None:
        if model and model not in self.models:
            raise BadRequest(f"model: {model}", status=404)
        if model:
            exchange.send_json(_model(model))
            return
        listed = [_model(name) for name in self.models]
        edges = {"first_id": self.models[0], "last_id": self.models[-1]}
        exchange.send_json({"data": listed, "has_more": False, **edges})

    def _answer(self, exchange: Exchange) -> None:
        body = exchange.received.body
        check_request(body, self.signatures)
        if body["model"] not in self.models:
            raise BadRequest(f"model: {body['model']}", status=404)
        reply = self.next_reply(body)
        if isinstance(reply, Refuse):
            exchange.refuse(reply)
            return
        exchange.send_stream(reply, self._events(reply, body), lead=3)

    def _events(self, answer: Answer, body: JSON) -> Iterator[JSON]:
        """Yield an answer's events. The first text begins with its block, to count as one chunk."""
        counts = answer.counts or Counts()
        start: JSON = {"id": f"msg_{uuid4().hex[:8]}", "role": "assistant", "content": []}
        if answer.counts:
            start["usage"] = _usage(counts, output=1)
        yield {"type": "message_start", "message": {**start, "type": "message"}}
        yield {"type": "ping"}
        shown = (body.get("thinking") or {}).get("display") != "omitted"
        for index, (block, deltas) in enumerate(self._blocks(answer, shown=shown)):
            yield from ({**event, "index": index} for event in _block_events(block, deltas))
        if answer.error:
            yield {"type": "error", "error": answer.error}
            return
        stop = answer.finish or ("tool_use" if answer.calls else "end_turn")
        end: JSON = {"type": "message_delta", "delta": {"stop_reason": stop}}
        if answer.blocked:
            end["delta"]["stop_details"] = {"type": "refusal", "explanation": answer.blocked}
        if answer.counts:
            end["usage"] = {"output_tokens": counts.output_tokens + counts.thought_tokens}
        yield end
        yield {"type": "message_stop"}

    def _blocks(self, answer: Answer, *, shown: bool) -> Iterator[tuple[JSON, Iterable[JSON]]]:
        if answer.redacted:
            yield {"type": "redacted_thinking", "data": answer.redacted}, ()
        if answer.thoughts:
            thought = answer.thoughts if shown else ""
            signature = "sig+" + sha256(f"{uuid4()}{thought}".encode()).hexdigest()
            self.signatures[signature] = thought
            deltas = [{"type": "thinking_delta", "thinking": thought}] if thought else []
            deltas.append({"type": "signature_delta", "signature": signature})
            yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
        texts = ({"type": "text_delta", "text": text} for text in answer.text)
        if first := next(texts, None):
            yield {"type": "text", "text": ""}, _chain(first, texts)
        for call in answer.calls:
            yield _call_block(call), _call_deltas(call)


def _chain(first: JSON, rest: Iterable[JSON]) -> Iterator[JSON]:
    yield first
    yield from rest


def _block_events(block: JSON, deltas: Iterable[JSON]) -> Iterator[JSON]:
    yield {"type": "content_block_start", "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}


def _call_block(call: Call) -> JSON:
    call_id = call.id or f"toolu_{uuid4().hex[:12]}"
    return {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}


def _call_deltas(call: Call) -> Iterator[JSON]:
    raw = json.dumps(call.arguments) if call.raw_arguments is None else call.raw_arguments
    for place in range(0, len(raw), PIECE):
        yield {"type": "input_json_delta", "partial_json": raw[place : place + PIECE]}


def _model(name: str) -> JSON:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "max_input_tokens": 1_000_000,
        "max_tokens": 64_000,
        "capabilities": {"image_input": {"supported": True}, "pdf_input": {"supported": True}},
    }


def _usage(counts: Counts, *, output: int) -> dict[str, Any]:
    """Return the counts. The vendor leaves cached tokens out of its number of input tokens."""
    fresh = counts.input_tokens - counts.cached_tokens - counts.written_tokens
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": counts.cached_tokens,
        "cache_creation_input_tokens": counts.written_tokens,
        "output_tokens": output,
    }
