"""The vendors' embedding calls. The SDKs are imported at the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agents.providers.pool import CONNECT_SECONDS, shared_client
from agents.providers.registry import Connection
from config.faults import ProviderRejected

#: The most texts that one request holds; the vendors' own bounds are no lower.
BATCH = 100


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel:
    """A vendor's model, and how long its vectors are."""

    provider: str
    model: str
    dimensions: int


#: What a provider's name alone means.
DEFAULTS = {
    "gemini": EmbeddingModel(provider="gemini", model="gemini-embedding-001", dimensions=768),
    "openai": EmbeddingModel(provider="openai", model="text-embedding-3-small", dimensions=1536),
}

Vectors: TypeAlias = list[list[float]]
Call: TypeAlias = Callable[[Connection, EmbeddingModel, list[str], bool], Vectors]


def embed(
    connection: Connection, model: EmbeddingModel, texts: Sequence[str], *, query: bool
) -> Vectors:
    """The vectors of these texts, in their order."""
    vectors: Vectors = []
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        got = CALLS[model.provider](connection, model, batch, query)
        if len(got) != len(batch) or any(len(one) != model.dimensions for one in got):
            sizes = sorted({len(one) for one in got})
            raise ProviderRejected(
                f"{model.model} answered {len(got)} vectors of {sizes} numbers for {len(batch)} "
                f"texts; {model.dimensions} were expected. Name the size after an @."
            )
        vectors += got
    return vectors


def _gemini(
    connection: Connection, model: EmbeddingModel, texts: list[str], query: bool
) -> Vectors:
    from google import genai
    from google.genai import types

    from agents.providers.gemini_failures import faults

    key = connection.api_key or ""
    options = types.HttpOptions(
        base_url=connection.base_url,
        timeout=int(connection.timeout * 1000),
        httpx_client=connection.http_client or shared_client(),
    )
    with faults(key):
        client = genai.Client(api_key=key, vertexai=False, http_options=options)
        answer = client.models.embed_content(
            model=model.model,
            contents=list(texts),
            config=types.EmbedContentConfig(
                output_dimensionality=model.dimensions,
                task_type="RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT",
            ),
        )
    return [list(one.values or []) for one in answer.embeddings or []]


def _openai(
    connection: Connection, model: EmbeddingModel, texts: list[str], query: bool
) -> Vectors:
    import httpx2
    import openai

    from agents.providers.openai import NO_KEY, OPENAI_URL
    from agents.providers.openai_failures import faults

    key = connection.api_key or NO_KEY
    with faults(key):
        client = openai.OpenAI(
            api_key=key,
            base_url=connection.base_url or OPENAI_URL,
            timeout=httpx2.Timeout(connection.timeout, connect=CONNECT_SECONDS),
            max_retries=0,
            http_client=connection.http_client or shared_client(),
        )
        # Only the vendor's newer models can be asked for a size; other servers refuse the word.
        sized = model.model.startswith("text-embedding-3")
        answer = client.embeddings.create(
            model=model.model,
            input=texts,
            encoding_format="float",
            dimensions=model.dimensions if sized else openai.omit,
        )
    return [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]


CALLS: dict[str, Call] = {"gemini": _gemini, "openai": _openai}
