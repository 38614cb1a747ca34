"""A server that speaks OpenAI's chat completions and refuses what OpenAI refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar
from uuid import uuid4

from tests.wire.answers import JSON, Answer, BadRequest, Call, Counts, Refuse, Reply, Script
from tests.wire.exchange import Exchange
from tests.wire.openai_rules import check_request
from tests.wire.server import Wire
from tests.wire.vectors import vector_of

MODELS = ("gpt-6-luna", "gpt-4o-mini")
#: Arguments are streamed in pieces of this many characters.
PIECE = 7


class OpenAIWire(Wire):
    """Answers `chat/completions`, and lists models.

    `entries` are the whole entries of the list of models, for servers that tell more than names.
    `refuses` names fields that this server does not know; `counts_tokens=False` makes one that
    ignores `stream_options`.
    """

    PREFIX: ClassVar[str] = "/v1"
    ESCAPES: ClassVar[bool] = False

    def __init__(
        self,
        script: Iterable[Reply] | Script = (),
        *,
        key: str = "test-key-0123456789",
        otherwise: Reply | None = None,
        models: tuple[str, ...] | None = MODELS,
        entries: list[Any] | None = None,
        refuses: frozenset[str] = frozenset(),
        counts_tokens: bool = True,
    ) -> None:
        super().__init__(script, key=key, otherwise=otherwise)
        self.models = models if entries is None else ()
        self.entries = entries
        self.refuses = refuses
        self.counts_tokens = counts_tokens

    def respond(self, exchange: Exchange) -> None:
        self._check_key(exchange)
        match exchange.received.method, exchange.received.path.partition("?")[0]:
            case "GET", "/v1/models" if self.models is not None:
                listed = [{"id": name, "object": "model"} for name in self.models]
                listed = listed if self.entries is None else self.entries
                exchange.send_json({"object": "list", "data": listed})
            case "POST", "/v1/chat/completions":
                self._complete(exchange)
            case "POST", "/v1/embeddings":
                self._embed(exchange)
            case _, path:
                raise BadRequest(f"Invalid URL (POST {path})", status=404)

    def error_body(self, refusal: Refuse, param: str = "") -> JSON:
        kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": refusal.message,
                "type": kind,
                "param": param or None,
                "code": refusal.code or None,
            }
        }

    def _check_key(self, exchange: Exchange) -> None:
        sent = exchange.received.headers.get("authorization", "").removeprefix("Bearer ")
        if sent != self.key:
            told = (
                f"Incorrect API key provided: {sent}." if sent else "You didn't provide an API key."
            )
            raise BadRequest(told, status=401, code="invalid_api_key")

    def _embed(self, exchange: Exchange) -> None:
        body = exchange.received.body
        size = body.get("dimensions", 1536)
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text, size)}
            for index, text in enumerate(body["input"])
        ]
        # The order is not guaranteed: clients go by the index.
        exchange.send_json({"object": "list", "data": data[::-1], "model": body["model"]})

    def _complete(self, exchange: Exchange) -> None:
        body = exchange.received.body
        for field in self.refuses & set(body):
            raise BadRequest(f"Unsupported parameter: '{field}' is not supported.", param=field)
        check_request(body)
        if self.models is not None and body.get("model") not in self.models:
            told = (
                f"The model `{body.get('model')}` does not exist or you do not have access to it."
            )
            raise BadRequest(told, status=404, code="model_not_found")
        if not body.get("stream"):
            raise BadRequest("This server only streams.", param="stream")
        reply = self.next_reply(body)
        if isinstance(reply, Refuse):
            exchange.refuse(reply)
            return
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        exchange.send_stream(
            reply,
            _chunks(reply, body["model"], count=asked and self.counts_tokens),
            lead=1,
            end="data: [DONE]\r\n\r\n",
        )


def _chunks(answer: Answer, model: str, *, count: bool) -> Iterator[JSON]:
    frame = {"id": f"chatcmpl-{uuid4().hex[:8]}", "object": "chat.completion.chunk", "created": 1}
    frame = {**frame, "model": model}

    def chunk(delta: JSON, finish: str | None = None) -> JSON:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if answer.thoughts:
        yield chunk({"reasoning_content": answer.thoughts})
    for text in answer.text:
        yield chunk({"content": text})
    for index, call in enumerate(answer.calls):
        yield from (chunk({"tool_calls": [piece]}) for piece in _call_pieces(index, call))
    if answer.error:
        yield {"error": answer.error}
        return
    yield chunk({}, answer.finish or ("tool_calls" if answer.calls else "stop"))
    if count and answer.counts:
        yield {**frame, "choices": [], "usage": _usage(answer.counts)}


def _call_pieces(index: int, call: Call) -> Iterator[JSON]:
    """Yield the name without arguments first, then the arguments in pieces."""
    call_id = call.id or f"call_{uuid4().hex[:12]}"
    raw = json.dumps(call.arguments) if call.raw_arguments is None else call.raw_arguments
    first = {"name": call.name, "arguments": ""}
    yield {"index": index, "id": call_id, "type": "function", "function": first}
    for place in range(0, len(raw), PIECE):
        yield {"index": index, "function": {"arguments": raw[place : place + PIECE]}}


def _usage(counts: Counts) -> JSON:
    output = counts.output_tokens + counts.thought_tokens
    return {
        "prompt_tokens": counts.input_tokens,
        "completion_tokens": output,
        "total_tokens": counts.input_tokens + output,
        "prompt_tokens_details": {"cached_tokens": counts.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": counts.thought_tokens},
    }
