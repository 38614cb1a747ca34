"""Streams answers of Google's Gemini models through the google-genai SDK."""

from __future__ import annotations

import binascii
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any
from uuid import uuid4

import httpx2
import structlog
from google import genai
from google.genai import errors, types

from agents.exceptions import ProviderFault, ProviderRejected, ProviderUnavailable
from agents.providers import failures
from agents.providers.answer_checks import MOST_LISTED, AnswerSize, checked_models
from agents.providers.base import (
    HISTORY_IS_CUT,
    Delta,
    Message,
    ModelFacts,
    ModelRequest,
    Part,
    TextDelta,
    TextState,
    ThinkingDelta,
    ThinkingState,
    Tick,
    ToolCall,
    ToolResult,
    Truncated,
    Usage,
    names_by_wire_name,
    wire_name,
)
from core.http import retry_after

log = structlog.get_logger(__name__)

#: Google's value for a call without a signature because no Gemini model made it.
UNSIGNED = b"skip_thought_signature_validator"
#: What a model that can chat supports.
CHAT = "generateContent"
# Gemini 1 and 2 never ask for a signature; later ones refuse a step without one.
_UNSIGNED_IS_FINE = re.compile(r"(?:models/)?gemini-(?:[12]\b|pro|flash)")


def contents_of(request: ModelRequest) -> list[types.Content]:
    """Convert messages to alternating `user` and `model` contents, merging neighbours of one role."""
    contents: list[types.Content] = []
    for message in request.messages:
        role = "model" if message.role == "assistant" else "user"
        parts = list(_parts(message, request.model))
        if not parts:
            continue
        if role == "model" and not contents:
            contents.append(types.Content(role="user", parts=[types.Part(text=HISTORY_IS_CUT)]))
        if contents and contents[-1].role == role and contents[-1].parts is not None:
            contents[-1].parts.extend(parts)
        else:
            contents.append(types.Content(role=role, parts=parts))
    return contents


def config_of(request: ModelRequest) -> types.GenerateContentConfig:
    """Convert instructions, tools and limits. The harness runs the tools; the SDK never does."""
    declarations = [
        types.FunctionDeclaration(
            name=wire_name(tool.name),
            description=tool.description,
            parameters_json_schema=tool.json_schema,
        )
        for tool in request.tools
    ]
    return types.GenerateContentConfig(
        system_instruction=request.instructions or None,
        tools=[types.Tool(function_declarations=declarations)] if declarations else None,
        temperature=request.temperature,
        max_output_tokens=request.max_tokens,
        thinking_config=_thinking_config(request),
        **_shape(request),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


#: How much a model thinks: the third generation has levels, the one before a budget of tokens.
LEVELS = {
    "low": types.ThinkingLevel.LOW,
    "medium": types.ThinkingLevel.MEDIUM,
    "high": types.ThinkingLevel.HIGH,
}
BUDGETS = {"off": 0, "low": 1_024, "medium": 8_192, "high": 24_576}
#: A model of the kind `pro` cannot leave out thinking.
LEAST_PRO_BUDGET = 128
_BEFORE_THINKING = re.compile(r"(?:models/)?gemini-(?:1\b|2\.0|pro|flash)")
_WITH_BUDGETS = re.compile(r"(?:models/)?gemini-2\b")


def _shape(request: ModelRequest) -> dict[str, Any]:
    """Return the fields that ask for JSON. The second generation refuses them beside tools."""
    if not request.response_schema or (request.tools and _WITH_BUDGETS.match(request.model)):
        return {}
    return {
        "response_mime_type": "application/json",
        "response_json_schema": request.response_schema,
    }


def _thinking_config(request: ModelRequest) -> types.ThinkingConfig | None:
    """Return how much to think. Without it, a model that thinks does not tell its thoughts."""
    model, effort = request.model, request.effort
    if _BEFORE_THINKING.match(model):
        return None
    config = types.ThinkingConfig(include_thoughts=effort != "off")
    if _WITH_BUDGETS.match(model) and effort:
        least = LEAST_PRO_BUDGET if "pro" in model else 0
        config.thinking_budget = max(BUDGETS[effort], least)
    elif effort == "off":
        config.thinking_level = LEVELS["low"] if "pro" in model else types.ThinkingLevel.MINIMAL
    elif effort:
        config.thinking_level = LEVELS[effort]
    return config


def _parts(message: Message, model: str) -> Iterator[types.Part]:
    match message.role:
        case "user":
            yield from map(_inline_part, message.parts)
            if message.text:
                yield types.Part(text=message.text)
        case "tool":
            yield from (_response_part(result) for result in message.results)
            yield from (_inline_part(part) for one in message.results for part in one.parts)
        case "assistant":
            if message.text:
                signature = _signature(message.provider_state)
                yield types.Part(text=message.text, thought_signature=signature)
            yield from _call_parts(message.calls, model)


def _inline_part(part: Part) -> types.Part:
    return types.Part(inline_data=types.Blob(mime_type=part.media_type, data=part.content))


def _call_parts(calls: tuple[ToolCall, ...], model: str) -> Iterator[types.Part]:
    # Of parallel calls only the first is signed, so one signature serves the step.
    unsigned = not any(_signature(call.provider_state) for call in calls)
    stand_in = UNSIGNED if unsigned and not _UNSIGNED_IS_FINE.match(model) else None
    for call in calls:
        yield types.Part(
            function_call=types.FunctionCall(
                id=call.call_id, name=wire_name(call.name), args=call.arguments
            ),
            thought_signature=_signature(call.provider_state) or stand_in,
        )
        stand_in = None


def _response_part(result: ToolResult) -> types.Part:
    return types.Part(
        function_response=types.FunctionResponse(
            id=result.call_id,
            name=wire_name(result.name),
            response={"error" if result.is_error else "output": result.output},
        )
    )


def _signature(state: str | None) -> bytes | None:
    """Return the signature in a stored state, or None if another provider wrote that state."""
    try:
        return b64decode(state, validate=True) if state else None
    except (binascii.Error, ValueError):
        return None


VENDOR = "Gemini"


@contextmanager
def translate_errors(key: str) -> Iterator[None]:
    """Turn the SDK's errors into faults, without the SDK's message, which may quote the key."""
    try:
        yield
    except errors.APIError as error:
        raise _fault(error, key) from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise failures.unreachable(VENDOR, error, key) from None
    except errors.UnknownApiResponseError:
        raise failures.cut_short(VENDOR) from None
    except httpx2.InvalidURL as error:
        raise ProviderRejected(f"The address of {VENDOR} is not valid: {error}") from None
    except failures.UNREADABLE:
        log.warning("answer_not_readable", vendor=VENDOR, exc_info=True)
        raise failures.malformed(VENDOR) from None


def _fault(error: errors.APIError, key: str) -> ProviderFault:
    details = _details(error.details)
    headers = getattr(error.response, "headers", None) or {}
    return failures.fault_of(
        failures.Refusal(
            vendor=VENDOR,
            status=error.code if type(error.code) is int and error.code else 500,
            message=str(error.message or error.status or ""),
            reason=next((str(detail["reason"]) for detail in details if "reason" in detail), ""),
            retry_after=_retry_delay(details) or retry_after(headers),
            secret=key,
        )
    )


def _details(body: Any) -> list[dict[str, Any]]:
    error = body.get("error", body) if isinstance(body, dict) else {}
    details = error.get("details") if isinstance(error, dict) else None
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _retry_delay(details: list[dict[str, Any]]) -> float | None:
    """Return the delay of a `google.rpc.RetryInfo`, such as `27s` or `0.5s`."""
    for detail in details:
        try:
            return float(str(detail["retryDelay"]).removesuffix("s"))
        except (KeyError, ValueError):
            continue
    return None


#: The time limit for a whole answer, sent to the server. The client's timeout covers silence only,
#: and Google refuses deadlines under ten seconds.
ANSWER_SECONDS = 600

REFUSED = {
    types.FinishReason.SAFETY: "its safety filter stopped the answer",
    types.FinishReason.RECITATION: "the answer would have recited protected text",
    types.FinishReason.LANGUAGE: "it does not support the language",
    types.FinishReason.BLOCKLIST: "the answer contained a forbidden term",
    types.FinishReason.PROHIBITED_CONTENT: "the answer contained prohibited content",
    types.FinishReason.SPII: "the answer contained sensitive personal data",
    types.FinishReason.TOO_MANY_TOOL_CALLS: "the model called too many tools in a row",
}
#: Mistakes that the same model rarely makes twice in a row.
MISTAKES = {
    types.FinishReason.MALFORMED_FUNCTION_CALL: "the model made a malformed tool call",
    types.FinishReason.UNEXPECTED_TOOL_CALL: "the model called a tool that was not offered",
    types.FinishReason.MALFORMED_RESPONSE: "the model's answer was malformed",
}


class GeminiProvider:
    """Streams answers of Gemini models. Can be shared between threads."""

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        timeout: float,
        http_client: httpx2.Client,
    ) -> None:
        self._key = api_key
        options = types.HttpOptions(
            base_url=base_url,
            timeout=math.ceil(timeout * 1000),
            headers={"X-Server-Timeout": str(max(ANSWER_SECONDS, math.ceil(timeout)))},
            httpx_client=http_client,
        )
        # Vertex is disabled here; otherwise an environment variable could switch it on.
        self._client = genai.Client(api_key=api_key, vertexai=False, http_options=options)

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer. Closing the iterator closes the connection."""
        names, size = names_by_wire_name(request.tools), AnswerSize()
        finish: types.FinishReason | None = None
        answered, usage = False, Usage()
        with translate_errors(self._key), closing(self._chunks(request)) as chunks:
            for chunk in chunks:
                _refuse_blocked_prompt(chunk)
                for delta in _deltas(chunk, names):
                    _count(delta, size)
                    answered = answered or isinstance(delta, TextDelta | ToolCall)
                    yield delta
                finish = _finish_reason(chunk) or finish
                if (counted := _usage(chunk)) and counted != usage:
                    usage = counted
                    yield counted
        _check_end(finish, answered=answered)
        if finish == types.FinishReason.MAX_TOKENS:
            yield Truncated()

    def _chunks(
        self, request: ModelRequest
    ) -> Generator[types.GenerateContentResponse, None, None]:
        yield from self._client.models.generate_content_stream(
            model=request.model, contents=contents_of(request), config=config_of(request)
        )

    def check(self, model: str) -> None:
        """Check that this key may use this model. The request is free."""
        with translate_errors(self._key):
            if model:
                self._client.models.get(model=model)
            else:
                next(iter(self._client.models.list(config={"page_size": 1})), None)

    def list_models(self) -> dict[str, ModelFacts]:
        """Return the models that can chat, with their windows."""
        with translate_errors(self._key):
            listed = list(
                islice(self._client.models.list(config={"page_size": 1_000}), MOST_LISTED)
            )
        chatting = [one for one in listed if CHAT in (one.supported_actions or [CHAT])]
        return checked_models(
            (
                (one.name or "").removeprefix("models/"),
                {"window": one.input_token_limit, "max_output": one.output_token_limit},
            )
            for one in chatting
        )


def _refuse_blocked_prompt(chunk: types.GenerateContentResponse) -> None:
    if (feedback := chunk.prompt_feedback) and feedback.block_reason:
        reason = feedback.block_reason_message or feedback.block_reason.value
        raise ProviderRejected(f"{VENDOR} refused the request: {reason}.")


def _deltas(chunk: types.GenerateContentResponse, names: dict[str, str]) -> Iterator[Delta]:
    content = chunk.candidates[0].content if chunk.candidates else None
    for part in (content.parts if content else None) or ():
        state = b64encode(part.thought_signature).decode() if part.thought_signature else None
        if call := part.function_call:
            yield ToolCall(
                call_id=call.id or f"call_{uuid4().hex}",
                name=names.get(call.name or "", call.name or ""),
                arguments=call.args or {},
                provider_state=state,
            )
        elif part.thought:
            if part.text:
                yield ThinkingDelta(text=part.text)
        elif part.text is not None:
            if part.text:
                yield TextDelta(text=part.text)
            if state:
                yield TextState(provider_state=state)


def _count(delta: Delta, size: AnswerSize) -> None:
    """Count a delta before it is passed on, so that no more than the bounds ever wait."""
    match delta:
        case TextDelta(text=text):
            size.add_text(len(text))
        case ThinkingDelta(text=text):
            size.add_thinking(len(text))
        case ToolCall(arguments=arguments):
            size.add_call()
            size.add_arguments(len(str(arguments)))
        case TextState(provider_state=state) | ThinkingState(provider_state=state):
            size.add_state(len(state))
        case Usage() | Truncated() | Tick():
            pass


def _finish_reason(chunk: types.GenerateContentResponse) -> types.FinishReason | None:
    return chunk.candidates[0].finish_reason if chunk.candidates else None


def _usage(chunk: types.GenerateContentResponse) -> Usage | None:
    if not (counts := chunk.usage_metadata):
        return None
    return Usage(
        input_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
        output_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
        cache_read_tokens=counts.cached_content_token_count or 0,
    )


def _check_end(finish: types.FinishReason | None, *, answered: bool) -> None:
    """Raise unless the stream says why it ended and, without an answer, ended well."""
    if finish is None:
        raise failures.cut_short(VENDOR)
    if answered:
        return
    if finish == types.FinishReason.MAX_TOKENS:
        raise failures.empty_answer(VENDOR)
    if finish in MISTAKES:
        reason = f"{MISTAKES[finish]} ({finish.value})"
        raise ProviderUnavailable(f"{VENDOR} returned an empty answer: {reason}.")
    if finish != types.FinishReason.STOP:
        why = REFUSED.get(finish, "it gave no usable answer")
        raise ProviderRejected(f"{VENDOR} returned an empty answer: {why} ({finish.value}).")
