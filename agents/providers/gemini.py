"""Gemini, through google-genai."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Generator, Iterator
from contextlib import closing
from uuid import uuid4

import httpx2
from google import genai
from google.genai import types

from agents.providers.base import Delta, ModelRequest, TextDelta, TextState, ToolCall, Usage
from agents.providers.failures import cut_short, nothing_said
from agents.providers.gemini_contents import config_of, contents_of
from agents.providers.gemini_failures import VENDOR, faults
from agents.providers.names import names_by_wire_name
from config.faults import ProviderRejected, ProviderUnavailable

#: The longest whole answer, told to the server. The timeout below is for silence only, and Google
#: refuses deadlines under ten seconds.
ANSWER_SECONDS = 600

REFUSED = {
    types.FinishReason.SAFETY: "its safety filter stopped the answer",
    types.FinishReason.RECITATION: "the answer would have recited protected text",
    types.FinishReason.LANGUAGE: "it does not support the language",
    types.FinishReason.BLOCKLIST: "the answer held a forbidden term",
    types.FinishReason.PROHIBITED_CONTENT: "the answer held prohibited content",
    types.FinishReason.SPII: "the answer held sensitive personal data",
    types.FinishReason.TOO_MANY_TOOL_CALLS: "the model called too many tools in a row",
}
#: Slips of the pen, which the same model mostly does not make again.
SLIPS = {
    types.FinishReason.MALFORMED_FUNCTION_CALL: "the model made a malformed tool call",
    types.FinishReason.UNEXPECTED_TOOL_CALL: "the model called a tool that was not offered",
    types.FinishReason.MALFORMED_RESPONSE: "the model's answer was malformed",
}


class GeminiProvider:
    """Streams answers of Gemini models. Safe to share between threads."""

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
        # Vertex is ruled out here, or a variable of the environment could switch it on.
        self._client = genai.Client(api_key=api_key, vertexai=False, http_options=options)

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer. Closing the iterator closes the connection."""
        names = names_by_wire_name(request.tools)
        finish: types.FinishReason | None = None
        answered, usage = False, Usage()
        with faults(self._key), closing(self._chunks(request)) as chunks:
            for chunk in chunks:
                _refuse_blocked_prompt(chunk)
                for delta in _deltas(chunk, names):
                    answered = answered or isinstance(delta, TextDelta | ToolCall)
                    yield delta
                finish = _finish_reason(chunk) or finish
                if (counted := _usage(chunk)) and counted != usage:
                    usage = counted
                    yield counted
        _check_end(finish, answered=answered)

    def _chunks(
        self, request: ModelRequest
    ) -> Generator[types.GenerateContentResponse, None, None]:
        yield from self._client.models.generate_content_stream(
            model=request.model, contents=contents_of(request), config=config_of(request)
        )

    def check(self, model: str) -> None:
        """Ask Google whether this key may use this model; costs nothing."""
        with faults(self._key):
            if model:
                self._client.models.get(model=model)
            else:
                next(iter(self._client.models.list(config={"page_size": 1})), None)


def _refuse_blocked_prompt(chunk: types.GenerateContentResponse) -> None:
    if (feedback := chunk.prompt_feedback) and feedback.block_reason:
        reason = feedback.block_reason_message or feedback.block_reason.value
        raise ProviderRejected(f"{VENDOR} refused to read the request: {reason}.")


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
        elif not part.thought and part.text is not None:
            if part.text:
                yield TextDelta(text=part.text)
            if state:
                yield TextState(provider_state=state)


def _finish_reason(chunk: types.GenerateContentResponse) -> types.FinishReason | None:
    return chunk.candidates[0].finish_reason if chunk.candidates else None


def _usage(chunk: types.GenerateContentResponse) -> Usage | None:
    if not (counts := chunk.usage_metadata):
        return None
    return Usage(
        input_tokens=(counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0),
        output_tokens=(counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0),
        cached_tokens=counts.cached_content_token_count or 0,
    )


def _check_end(finish: types.FinishReason | None, *, answered: bool) -> None:
    """A stream must say why it ended, and an end without an answer must be a good one."""
    if finish is None:
        raise cut_short(VENDOR)
    if answered:
        return
    if finish == types.FinishReason.MAX_TOKENS:
        raise nothing_said(VENDOR)
    if finish in SLIPS:
        raise ProviderUnavailable(f"{VENDOR} answered nothing: {SLIPS[finish]} ({finish.value}).")
    if finish != types.FinishReason.STOP:
        why = REFUSED.get(finish, "it gave no usable answer")
        raise ProviderRejected(f"{VENDOR} answered nothing: {why} ({finish.value}).")
