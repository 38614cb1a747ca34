"""A server that speaks Gemini's wire format and refuses what Gemini refuses."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from tests.wire.answers import JSON, Answer, BadRequest, Call, Counts, Refuse, Reply, Script
from tests.wire.exchange import Exchange
from tests.wire.gemini_rules import check_request
from tests.wire.server import Wire
from tests.wire.vectors import vector_of

MODELS = ("gemini-3.8-flash", "gemini-3.1-pro-preview", "gemini-2.5-flash")
STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_PATH = re.compile(r"/v1(?:beta)?/models(?:/(?P<model>[^:/]+)(?::(?P<verb>\w+))?)?")


class GeminiWire(Wire):
    """Answers `streamGenerateContent`, lists models, and records the signatures it issued."""

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
        self.signatures: dict[str, str] = {}

    def respond(self, exchange: Exchange) -> None:
        address = urlsplit(exchange.received.path)
        self._check_key(exchange, parse_qs(address.query).get("key", [""])[0])
        match = _PATH.fullmatch(address.path)
        if not match:
            raise BadRequest(f"Not found: {address.path}", status=404)
        model, verb = match["model"], match["verb"]
        if model and model not in self.models:
            raise BadRequest(f"models/{model} is not found for API version v1", status=404)
        if exchange.received.method == "GET":
            listed = [_model(name) for name in self.models]
            exchange.send_json(_model(model) if model else {"models": listed})
        elif verb == "streamGenerateContent":
            self._generate(exchange, model)
        elif verb == "batchEmbedContents":
            self._embed(exchange)
        else:
            raise BadRequest(f"Method {verb} is not supported", status=404)

    def error_body(self, refusal: Refuse, param: str = "") -> JSON:
        details: list[JSON] = list(refusal.details)
        if refusal.code:
            details.append(
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.code}
            )
        error: JSON = {
            "code": refusal.status,
            "message": refusal.message,
            "status": STATUS_WORDS.get(refusal.status, "UNKNOWN"),
        }
        return {"error": {**error, "details": details} if details else error}

    def _check_key(self, exchange: Exchange, in_query: str) -> None:
        key = exchange.received.headers.get("x-goog-api-key") or in_query
        if not key:
            raise BadRequest(
                "Method doesn't allow unregistered callers (callers without established identity).",
                status=403,
            )
        if key != self.key:
            # Google answers 400 here, not 401.
            raise BadRequest(
                f"API key not valid: {key}. Please pass a valid API key.", code="API_KEY_INVALID"
            )

    def _embed(self, exchange: Exchange) -> None:
        asked = exchange.received.body["requests"]
        values = [
            vector_of(one["content"]["parts"][0]["text"], one.get("outputDimensionality", 3072))
            for one in asked
        ]
        exchange.send_json({"embeddings": [{"values": vector} for vector in values]})

    def _generate(self, exchange: Exchange, model: str) -> None:
        body = exchange.received.body
        check_request(body, model, self.signatures)
        reply = self.next_reply(body)
        if isinstance(reply, Refuse):
            exchange.refuse(reply)
            return
        config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
        told = bool(config.get("include_thoughts"))
        exchange.send_stream(reply, self._chunks(reply, model, told=told))

    def _chunks(self, answer: Answer, model: str, *, told: bool) -> Iterator[JSON]:
        if answer.blocked:
            yield {"promptFeedback": {"blockReason": answer.blocked}, "modelVersion": model}
            return
        if answer.thoughts and told:
            yield _chunk([{"text": answer.thoughts, "thought": True}], model)
        for text in answer.text:
            yield _chunk([{"text": text}], model)
        if answer.text_signature:
            signature = b64encode(answer.text_signature).decode()
            yield _chunk([{"text": "", "thoughtSignature": signature}], model)
        if answer.calls:
            yield _chunk([self._call(call) for call in answer.calls], model)
        if answer.error:
            yield {"error": answer.error}
            return
        last: JSON = {"candidates": [{"finishReason": answer.finish or "STOP", "index": 0}]}
        if answer.counts:
            last["usageMetadata"] = _usage(answer.counts)
        yield {**last, "modelVersion": model}

    def _call(self, call: Call) -> JSON:
        call_id = call.id or uuid4().hex[:8]
        part: JSON = {
            "functionCall": {"name": call.name, "args": call.arguments, "id": call_id},
        }
        if call.signature:
            part["thoughtSignature"] = b64encode(call.signature).decode()
            self.signatures[call_id] = part["thoughtSignature"]
        return part


def _model(name: str) -> JSON:
    return {"name": f"models/{name}", "displayName": name, "inputTokenLimit": 1_048_576}


def _chunk(parts: list[JSON], model: str) -> JSON:
    content = {"role": "model", "parts": parts}
    return {"candidates": [{"content": content, "index": 0}], "modelVersion": model}


def _usage(counts: Counts) -> JSON:
    total = counts.input_tokens + counts.output_tokens + counts.thought_tokens
    return {
        "promptTokenCount": counts.input_tokens,
        "candidatesTokenCount": counts.output_tokens,
        "cachedContentTokenCount": counts.cached_tokens,
        "thoughtsTokenCount": counts.thought_tokens,
        "totalTokenCount": total,
    }
