"""Embeds texts with a provider's model, through the key that a workspace has for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from agents.credentials import credentials
from agents.providers.embeddings import DEFAULTS, EmbeddingModel, embed
from agents.providers.registry import Connection
from tenants.off_loop import let_go

TIMEOUT_SECONDS = 30.0


def model_named(provider: str, rest: str) -> EmbeddingModel | None:
    """The model that `NAME@DIMENSIONS` of a provider means; each part may be left out."""
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
    """The vectors of these texts. A fault says what is wrong with the key or the server."""
    found = credentials(workspace_id, provider)
    # The server may take its time, and others want the database's connection meanwhile.
    let_go()
    connection = Connection(
        api_key=found.api_key,
        base_url=found.base_url,
        timeout=TIMEOUT_SECONDS,
        http_client=found.http_client,
    )
    chosen = EmbeddingModel(provider=provider, model=model, dimensions=dimensions)
    return embed(connection, chosen, texts, query=query)
