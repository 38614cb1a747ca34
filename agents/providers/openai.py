"""Streams answers of OpenAI and compatible servers: Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx2
import openai
import structlog
from openai import APIResponse
from openai.types import Model

from agents.exceptions import AnswerTooLarge, ProviderFault, ProviderRejected
from agents.providers import failures
from agents.providers.answer_checks import (
    MAX_CALLS,
    AnswerSize,
    checked_models,
    parse_arguments,
)
from agents.providers.base import (
    JSON,
    RAW,
    Delta,
    Message,
    ModelFacts,
    ModelRequest,
    Part,
    TextDelta,
    ThinkingDelta,
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


@dataclass(kw_only=True)
class _Pieces:
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


#: How often the arguments of a call are parsed to see whether a name begins another one.
MAX_PARSED = 8 * MAX_CALLS


class CallAssembly:
    """Assembles the tool calls of one answer from deltas, in the order in which they began."""

    def __init__(self, size: AnswerSize | None = None) -> None:
        self._size = size or AnswerSize()
        self._calls: list[_Pieces] = []
        self._by_index: dict[int, _Pieces] = {}
        self._parsed = 0

    def add(self, deltas: Iterable[JSON]) -> None:
        for delta in deltas:
            pieces = self._pieces_of(delta)
            pieces.call_id = pieces.call_id or delta.get("id") or ""
            if function := delta.get("function"):
                pieces.name = pieces.name or function.get("name") or ""
                if text := _piece_text(function.get("arguments")):
                    self._size.add_arguments(len(text))
                    pieces.arguments.append(text)

    def finish(self, names: dict[str, str]) -> Iterator[ToolCall]:
        """Yield the complete calls, under the tools' own names."""
        for pieces in self._calls:
            yield ToolCall(
                call_id=pieces.call_id or f"call_{uuid4().hex}",
                name=names.get(pieces.name, pieces.name),
                arguments=parse_arguments("".join(pieces.arguments)),
            )

    def __bool__(self) -> bool:
        return bool(self._calls)

    def text(self) -> str:
        """Return all that was streamed, to estimate tokens when the server does not count."""
        return "".join(piece.name + "".join(piece.arguments) for piece in self._calls)

    def _pieces_of(self, delta: JSON) -> _Pieces:
        # Some servers leave the index out, or send every call as number 0.
        index: int | None = delta.get("index")
        last = self._calls[-1] if self._calls else None
        known = last if index is None else self._by_index.get(index)
        if known and not self._begins_another(delta, known):
            return known
        self._size.add_call()
        fresh = _Pieces()
        self._calls.append(fresh)
        if index is not None:
            self._by_index[index] = fresh
        return fresh

    def _begins_another(self, delta: JSON, known: _Pieces) -> bool:
        """Return whether a delta starts a new call: by a new id, or a name after a complete call."""
        if delta.get("id") and known.call_id:
            return bool(delta["id"] != known.call_id)
        named = bool((delta.get("function") or {}).get("name"))
        return named and self._is_complete(known)

    def _is_complete(self, known: _Pieces) -> bool:
        if not "".join(known.arguments[-8:]).rstrip().endswith("}"):
            return False
        self._parsed += 1
        if self._parsed > MAX_PARSED:
            raise AnswerTooLarge
        return RAW not in parse_arguments("".join(known.arguments))


def _piece_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


VENDOR = "The OpenAI-compatible server"
#: Phrases by which a server says that it does not know a field, rather than dislikes its value.
_UNKNOWN_FIELD = ("unsupported", "not support", "unknown", "unrecognized", "extra", "not permitted")
#: Parts of an error code inside a stream that mean the request is at fault.
_REQUEST_AT_FAULT = ("invalid", "context", "content", "quota")


@contextmanager
def translate_errors(key: str) -> Iterator[None]:
    """Turn the SDK's errors into faults, without the SDK's message, which may quote the key."""
    try:
        yield
    except openai.APIStatusError as error:
        raise _fault(error, error.status_code, key, retry_after(error.response.headers)) from None
    except openai.APIConnectionError as error:
        cause = error.__cause__
        raise failures.unreachable(
            VENDOR, cause if isinstance(cause, Exception) else error, key
        ) from None
    except openai.APIError as error:
        raise _fault(error, _status_in_stream(str(error.code or "")), key) from None
    except json.JSONDecodeError:
        raise failures.cut_short(VENDOR) from None
    except httpx2.InvalidURL as error:
        raise ProviderRejected(f"The address of the server is not valid: {error}") from None
    except (httpx2.HTTPError, httpx2.StreamError, openai.OpenAIError, OSError) as error:
        raise failures.unreachable(VENDOR, error, key) from None
    except failures.UNREADABLE:
        log.warning("answer_not_readable", vendor=VENDOR, exc_info=True)
        raise failures.malformed(VENDOR) from None


def refused_option(error: openai.APIStatusError, sent: Iterable[str]) -> str | None:
    """Return which of the sent fields this error calls unknown, if any."""
    complaint = str(error.message).lower()
    if not any(word in complaint for word in _UNKNOWN_FIELD):
        return None
    return next((one for one in sent if one == error.param or one in complaint), None)


def _status_in_stream(code: str) -> int:
    """Return the status for an error inside a stream, whose code is a number or a word."""
    if code.isascii() and code.isdecimal() and len(code) == 3:
        return int(code)
    if code == "rate_limit_exceeded":
        return 429
    return 400 if any(word in code for word in _REQUEST_AT_FAULT) else 500


def _fault(
    error: openai.APIError, status: int, key: str, wait: float | None = None
) -> ProviderFault:
    body = error.body if isinstance(error.body, dict) else {}
    return failures.fault_of(
        failures.Refusal(
            vendor=VENDOR,
            status=status,
            message=str(body.get("message") or error.message),
            reason=str(error.code or error.type or ""),
            retry_after=wait,
            secret=key,
        )
    )


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the request's body, with requested fields only: servers differ in what they know."""
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
    if request.response_schema:
        shape = {"name": "answer", "schema": request.response_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    if request.effort:
        body["reasoning_effort"] = "none" if request.effort == "off" else request.effort
    return body


def _messages(request: ModelRequest) -> Iterator[JSON]:
    if request.instructions:
        yield {"role": "system", "content": request.instructions}
    #: Parts of results. The format has no place for them, so a message after the results shows them.
    shown: list[Part] = []
    for message in request.messages:
        if shown and message.role != "tool":
            yield {"role": "user", "content": _content(SHOWN, shown)}
            shown.clear()
        match message.role:
            case "user":
                yield {"role": "user", "content": _content(message.text, message.parts)}
            case "assistant":
                if message.text or message.calls:
                    yield _assistant(message)
            case "tool":
                yield from (_result(result) for result in message.results)
                shown.extend(part for result in message.results for part in result.parts)

    if shown:
        yield {"role": "user", "content": _content(SHOWN, shown)}


SHOWN = "[Shown by the tools above.]"


def _content(text: str, parts: Sequence[Part]) -> str | list[JSON]:
    if not parts:
        return text
    return [*({"type": "text", "text": text} for text in [text] if text), *map(_part, parts)]


def _part(part: Part) -> JSON:
    data = f"data:{part.media_type};base64,{part.base64}"
    if part.type == "image":
        return {"type": "image_url", "image_url": {"url": data}}
    if part.media_type.startswith("audio/"):
        sound = {"data": part.base64, "format": part.media_type.partition("/")[2]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "file", "file": {"filename": part.name, "file_data": data}}


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
    content = f"Error: {result.output}" if result.is_error else result.output
    return {"role": "tool", "tool_call_id": wire_id(result.call_id), "content": content}


def _tool(tool: ToolSpec) -> JSON:
    return {
        "type": "function",
        "function": {
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": tool.json_schema,
        },
    }


DONE = b"[DONE]"


def chunks_of(pieces: Iterable[bytes], request: httpx2.Request) -> Iterator[JSON]:
    """Yield the chunks of one answer. An error inside the stream is raised as the SDK would.

    They stay plain dictionaries: building the SDK's models took most of the time of a token.
    """
    lines = lines_of(pieces)
    for line in lines:
        name, _, data = line.partition(b":")
        if name != b"data":
            continue
        if (data := data.strip()) == DONE:
            # The answer is complete; a connection that breaks now just cannot be reused.
            with suppress(httpx2.HTTPError):
                deque(lines, maxlen=0)
            return
        body = json.loads(data or b"null")
        if not isinstance(body, dict):
            continue  # A keep-alive.
        if error := body.get("error"):
            message = error.get("message") if isinstance(error, dict) else error
            raise openai.APIError(str(message or "no reason given"), request, body=error)
        yield body


OPENAI_URL = "https://api.openai.com/v1"
#: Sent when a local server needs no key, because the SDK requires some text.
NO_KEY = "none"
NO_API = f"{VENDOR} did not answer like an OpenAI-compatible API. Check its address."
#: Fields that a server may not know, and what to send instead, if anything.
OPTIONAL = {
    "stream_options": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
    "reasoning_effort": None,
    "response_format": None,
}


class OpenAIProvider:
    """Streams chat completions. Can be shared between threads."""

    def __init__(
        self,
        *,
        api_key: str | None,
        base_url: str | None = None,
        timeout: float,
        http_client: httpx2.Client,
    ) -> None:
        self._key = api_key or NO_KEY
        self._client = openai.OpenAI(
            api_key=self._key,
            base_url=base_url or OPENAI_URL,
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            max_retries=0,
            http_client=http_client,
        )
        # Pairs of model and field that this server has refused.
        self._refused: set[tuple[str, str]] = set()

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer. Closing the iterator closes the connection."""
        names, size = names_by_wire_name(request.tools), AnswerSize()
        text: list[str] = []
        calls = CallAssembly(size)
        usage: Usage | None = None
        finish: str | None = None
        with translate_errors(self._key):
            with self._open(body_of(request)) as chunks:
                for chunk in chunks:
                    usage = _usage(chunk.get("usage")) or usage
                    # Only one choice was requested; the chunk with the usage has none.
                    for choice in (chunk.get("choices") or ())[:1]:
                        finish = choice.get("finish_reason") or finish
                        delta = choice.get("delta") or {}  # Some servers end with an empty choice.
                        calls.add(delta.get("tool_calls") or ())
                        if thought := _thought_of(delta):
                            size.add_thinking(len(thought))
                            yield ThinkingDelta(text=thought)
                        if piece := _text_of(delta.get("content")) or _text_of(
                            delta.get("refusal")
                        ):
                            size.add_text(len(piece))
                            text.append(piece)
                            yield TextDelta(text=piece)
            if usage and not (text or calls):
                yield usage  # Thinking is paid for even without an answer.
            _check_end(finish, answered=bool(text or calls))
            yield from calls.finish(names)
            if finish == "length":
                yield Truncated()
            yield usage or _guess(request, "".join(text) + calls.text())

    def check(self, model: str) -> None:
        """Check that the server accepts this key and knows the model."""
        listed = {one.id for one in self._listed()}
        # Some servers list no models, or serve unlisted ones: request one token then.
        if model and model not in listed:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
            with translate_errors(self._key), self._open({**body, "max_tokens": 1}) as chunks:
                for _ in chunks:
                    break

    def list_models(self) -> dict[str, ModelFacts]:
        """Return the models that the server lists, with the facts that it tells."""
        listed = ((one.id, _told_facts(one.model_extra or {})) for one in self._listed())
        return checked_models(listed)

    def _listed(self) -> list[Model]:
        with translate_errors(self._key):
            try:
                listed = list(self._client.models.list().data or ())
            except openai.NotFoundError:
                return []
            except AttributeError:
                # The SDK fails on a page that is not JSON, such as a web site's.
                raise ProviderRejected(NO_API) from None
        return [one for one in listed if isinstance(getattr(one, "id", None), str)]

    @contextmanager
    def _open(self, body: dict[str, Any]) -> Iterator[Iterator[JSON]]:
        """Yield the chunks of an answer. Leaving the block early closes the connection."""
        with ExitStack() as opened:
            response = self._send(body, opened)
            yield chunks_of(response.iter_bytes(), response.http_request)

    def _send(self, body: dict[str, Any], opened: ExitStack) -> APIResponse[Any]:
        """Send the request without the fields that the server has refused."""
        for option in [one for one in OPTIONAL if (body["model"], one) in self._refused]:
            _leave_out(body, option)
        completions = self._client.chat.completions.with_streaming_response
        while True:
            try:
                return opened.enter_context(completions.create(**body))
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                refused = refused_option(error, [one for one in OPTIONAL if one in body])
                if refused is None:
                    raise
                self._refused.add((body["model"], refused))
                _leave_out(body, refused)


#: Where servers tell the context window: OpenRouter, vLLM, Mistral, Groq, llama.cpp.
WINDOW_FIELDS = ("context_length", "max_model_len", "max_context_length", "context_window")
PER_MILLION = 1_000_000


def _told_facts(entry: JSON) -> dict[str, object]:
    """Return the facts in an entry of a model list. There is no standard; each server has its own."""
    meta, top = _object(entry, "meta"), _object(entry, "top_provider")
    pricing, able = _object(entry, "pricing"), _object(entry, "capabilities")
    windows = [entry.get(name) for name in WINDOW_FIELDS] + [meta.get("n_ctx")]
    told: dict[str, object] = {
        "window": next((size for size in windows if size), meta.get("n_ctx_train")),
        "max_output": top.get("max_completion_tokens"),
        "input_price": _per_million(pricing.get("prompt")),
        "output_price": _per_million(pricing.get("completion")),
        "tools": _named(entry.get("supported_parameters"), "tools", able.get("function_calling")),
        "images": _named(
            _object(entry, "architecture").get("input_modalities"), "image", able.get("vision")
        ),
    }
    return told


def _object(entry: JSON, name: str) -> JSON:
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def _per_million(price: object) -> Decimal | None:
    """Return a price per token, which is sent as text, as one per million tokens."""
    try:
        amount = Decimal(str(price)) * PER_MILLION
    except ArithmeticError:
        return None
    return round(amount, 6) if amount.is_finite() and amount < PER_MILLION else None


def _named(listed: object, name: str, otherwise: object) -> object:
    return name in listed if isinstance(listed, list) else otherwise


def _leave_out(body: dict[str, Any], option: str) -> None:
    if option in body:
        value, instead = body.pop(option), OPTIONAL[option]
        if instead:
            body[instead] = value


def _text_of(content: Any) -> str:
    """Return the text of a delta. Some servers send a list of parts, including thoughts."""
    if not content or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError("The text of a delta is neither a string nor a list of parts.")
    parts = (part for part in content if isinstance(part, dict))
    return "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def _thought_of(delta: JSON) -> str:
    """Return the thinking in a delta: DeepSeek and vLLM have one name for it, OpenRouter another."""
    thought = delta.get("reasoning_content") or delta.get("reasoning")
    return thought if isinstance(thought, str) else ""


def _usage(counts: JSON | None) -> Usage | None:
    """Return the server's token counts, if it sent any."""
    if not counts or not (counts.get("prompt_tokens") or counts.get("completion_tokens")):
        return None
    details = counts.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=counts.get("prompt_tokens") or 0,
        output_tokens=counts.get("completion_tokens") or 0,
        cache_read_tokens=details.get("cached_tokens") or 0,
    )


def _guess(request: ModelRequest, answer: str) -> Usage:
    return Usage(input_tokens=estimate_request(request), output_tokens=estimate_tokens(answer))


def _check_end(finish: str | None, *, answered: bool) -> None:
    if finish is None:
        raise failures.cut_short(VENDOR)
    if finish == "length" and not answered:
        raise failures.empty_answer(VENDOR)
    if finish == "content_filter" and not answered:
        raise ProviderRejected(f"{VENDOR} returned an empty answer: its content filter stopped it.")
