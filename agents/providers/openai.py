"""OpenAI and every server that speaks its chat completions: Ollama, vLLM, llama.cpp, OpenRouter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import httpx2
import openai
from openai import APIResponse
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from agents.providers.base import Delta, ModelRequest, TextDelta, Usage
from agents.providers.estimate import estimate_request, estimate_tokens
from agents.providers.failures import cut_short, nothing_said
from agents.providers.names import names_by_wire_name
from agents.providers.openai_calls import CallAssembly
from agents.providers.openai_failures import VENDOR, faults, refused_option
from agents.providers.openai_messages import body_of
from agents.providers.openai_stream import chunks_of
from agents.providers.pool import CONNECT_SECONDS
from config.faults import ProviderRejected

OPENAI_URL = "https://api.openai.com/v1"
#: Sent where a local server asks for no key; the SDK insists on some text.
NO_KEY = "none"
NO_API = f"{VENDOR} did not answer like one. Check its address."
#: What a server may refuse to know, and what to send in its place, if anything.
OPTIONAL = {
    "stream_options": None,
    "temperature": None,
    "max_tokens": "max_completion_tokens",
}


class OpenAIProvider:
    """Streams chat completions. Safe to share between threads."""

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
        # Pairs of model and option that this server has refused; asked once, then remembered.
        self._refused: set[tuple[str, str]] = set()

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        """Stream one answer. Closing the iterator closes the connection."""
        names, calls = names_by_wire_name(request.tools), CallAssembly()
        text: list[str] = []
        usage: Usage | None = None
        finish: str | None = None
        with faults(self._key), self._open(body_of(request)) as chunks:
            for chunk in chunks:
                usage = _usage(chunk.usage) or usage
                # Only the first choice was asked for; the chunk with the usage has none.
                for choice in (chunk.choices or ())[:1]:
                    finish = choice.finish_reason or finish
                    # Some servers end with a choice that has no more to say.
                    if (delta := cast("ChoiceDelta | None", choice.delta)) is None:
                        continue
                    calls.add(delta.tool_calls or ())
                    if said := _text_of(delta.content) or delta.refusal:
                        text.append(said)
                        yield TextDelta(text=said)
        if usage and not (text or calls):
            yield usage  # What was thought is paid for.
        _check_end(finish, answered=bool(text or calls))
        yield from calls.finish(names)
        yield usage or _guess(request, "".join(text) + calls.text())

    def check(self, model: str) -> None:
        """See that the server answers with this key, and knows the model."""
        with faults(self._key):
            try:
                listed = {one.id for one in self._client.models.list().data or ()}
            except openai.NotFoundError:
                listed = set()
            except AttributeError:
                # The SDK trips over a page that is not JSON, such as a web site's own.
                raise ProviderRejected(NO_API) from None
        # Some servers list nothing, or serve names they do not list: ask for one token then.
        if model and model not in listed:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
            with faults(self._key), self._open({**body, "max_tokens": 1}) as chunks:
                for _ in chunks:
                    break

    @contextmanager
    def _open(self, body: dict[str, Any]) -> Iterator[Iterator[ChatCompletionChunk]]:
        """The chunks of an answer; leaving the block early hangs up."""
        with ExitStack() as opened:
            response = self._send(body, opened)
            yield chunks_of(response.iter_bytes(), response.http_request)

    def _send(self, body: dict[str, Any], opened: ExitStack) -> APIResponse[Any]:
        """Send the request, leaving out what the server refuses to know."""
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


def _leave_out(body: dict[str, Any], option: str) -> None:
    if option in body:
        value, instead = body.pop(option), OPTIONAL[option]
        if instead:
            body[instead] = value


def _text_of(content: Any) -> str:
    """The words of a piece. Some servers send it in parts, their thoughts among them."""
    if not isinstance(content, list):
        return content or ""
    parts = (part for part in content if isinstance(part, dict))
    return "".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def _usage(counts: CompletionUsage | None) -> Usage | None:
    """What the server counted, if it did: nothing costs nothing."""
    if counts is None or not (counts.prompt_tokens or counts.completion_tokens):
        return None
    details = counts.prompt_tokens_details
    return Usage(
        input_tokens=counts.prompt_tokens or 0,
        output_tokens=counts.completion_tokens or 0,
        cached_tokens=(details.cached_tokens if details else None) or 0,
    )


def _guess(request: ModelRequest, answer: str) -> Usage:
    return Usage(input_tokens=estimate_request(request), output_tokens=estimate_tokens(answer))


def _check_end(finish: str | None, *, answered: bool) -> None:
    if finish is None:
        raise cut_short(VENDOR)
    if finish == "length" and not answered:
        raise nothing_said(VENDOR)
    if finish == "content_filter" and not answered:
        raise ProviderRejected(f"{VENDOR} answered nothing: its content filter stopped the answer.")
