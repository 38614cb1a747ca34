"""Calls the vendors' embedding models. The SDKs are imported at the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from agents.exceptions import ProviderRejected
from agents.providers.http import CONNECT_SECONDS, shared_client
from agents.providers.keys import credentials
from agents.providers.registry import Connection
from core.db import release_connection

#: The most texts in one request; the vendors' own limits are not lower.
BATCH = 100


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel:
    """An embedding model of a vendor, and the size of its vectors."""

    provider: str
    model: str
    dimensions: int


#: The model that a provider's name alone stands for.
DEFAULTS = {
    "gemini": EmbeddingModel(provider="gemini", model="gemini-embedding-001", dimensions=768),
    "openai": EmbeddingModel(provider="openai", model="text-embedding-3-small", dimensions=1536),
}

Vectors: TypeAlias = list[list[float]]
Call: TypeAlias = Callable[[Connection, EmbeddingModel, list[str], bool], Vectors]


def embed(
    connection: Connection, model: EmbeddingModel, texts: Sequence[str], *, query: bool
) -> Vectors:
    """Return the vectors of these texts, in the same order."""
    vectors: Vectors = []
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        got = CALLS[model.provider](connection, model, batch, query)
        if len(got) != len(batch) or any(len(vector) != model.dimensions for vector in got):
            sizes = sorted({len(vector) for vector in got})
            raise ProviderRejected(
                f"{model.model} returned {len(got)} vectors of {sizes} numbers for {len(batch)} texts; "
                f"expected {model.dimensions} numbers. Set the size after an @ in the model's name."
            )
        vectors += got
    return vectors


def _gemini(
    connection: Connection, model: EmbeddingModel, texts: list[str], query: bool
) -> Vectors:
    from google import genai
    from google.genai import types

    from agents.providers.gemini import translate_errors

    key = connection.api_key or ""
    options = types.HttpOptions(
        base_url=connection.base_url,
        timeout=int(connection.timeout * 1000),
        httpx_client=connection.http_client or shared_client(),
    )
    with translate_errors(key):
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

    from agents.providers.openai import NO_KEY, OPENAI_URL, translate_errors

    key = connection.api_key or NO_KEY
    with translate_errors(key):
        client = openai.OpenAI(
            api_key=key,
            base_url=connection.base_url or OPENAI_URL,
            timeout=httpx2.Timeout(connection.timeout, connect=CONNECT_SECONDS),
            max_retries=0,
            http_client=connection.http_client or shared_client(),
        )
        # Only OpenAI's newer models accept a size; other servers refuse the field.
        sized = model.model.startswith("text-embedding-3")
        answer = client.embeddings.create(
            model=model.model,
            input=texts,
            encoding_format="float",
            dimensions=model.dimensions if sized else openai.omit,
        )
    return [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]


CALLS: dict[str, Call] = {"gemini": _gemini, "openai": _openai}

TIMEOUT_SECONDS = 30.0


def model_named(provider: str, rest: str) -> EmbeddingModel | None:
    """Return the model for `NAME@DIMENSIONS` of a provider; each part may be left out."""
    known = DEFAULTS.get(provider)
    if known is None:
        return None
    name, _, size = rest.partition("@")
    if size and not (size.isascii() and size.isdecimal() and 0 < int(size[:6]) <= 16_000):
        return None
    return replace(
        known, model=name or known.model, dimensions=int(size) if size else known.dimensions
    )


def embed_texts(
    *,
    workspace_id: UUID,
    provider: str,
    model: str,
    dimensions: int,
    texts: Sequence[str],
    query: bool,
) -> list[list[float]]:
    """Return the vectors of these texts. Raise a ProviderFault if the key or the server fails."""
    found = credentials(workspace_id, provider)
    # The server may be slow, and other threads need the database connection meanwhile.
    release_connection()
    connection = Connection(
        api_key=found.api_key,
        base_url=found.base_url,
        timeout=TIMEOUT_SECONDS,
        http_client=found.http_client,
    )
    chosen = EmbeddingModel(provider=provider, model=model, dimensions=dimensions)
    return embed(connection, chosen, texts, query=query)
