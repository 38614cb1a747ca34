"""The embedding models, which turn text into vectors, behind one Protocol.

`minilm` and `wordllama` are installed with the product and need no network. `minilm` understands
sentences and is the default; `wordllama` averages word vectors and takes its place where the package
with the weights cannot be installed. A plugin registers its own by name. Any other name has the form
`PROVIDER:MODEL@DIMENSIONS`, and is called with the workspace's key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast
from uuid import UUID

from core.exceptions import Invalid
from core.fair_slots import FairSlots
from core.plugins import add, check_callable, check_new, refuse
from memory import sentence_model
from memory.ranking import COMMON, EDGES, split_words

if TYPE_CHECKING:
    from wordllama.inference import WordLlamaInference

SENTENCES, STATIC = "minilm", "wordllama"
#: The model that is always installed, and fast enough for texts whose vectors are not stored.
DEFAULT = STATIC


def default_model() -> str:
    """Return the embedded model for a workspace that has no memory yet."""
    return SENTENCES if sentence_model.is_installed() else STATIC


#: The most dimensions that an HNSW index supports.
MOST_DIMENSIONS = 2_000

Vector = list[float]


class Embedder(Protocol):
    #: The name under which vectors are stored. It identifies the model and the size.
    name: str
    dimensions: int

    def embed(self, texts: Sequence[str]) -> list[Vector]: ...

    def embed_query(self, query: str, rarity: Mapping[str, float]) -> Vector | None:
        """Return the query's vector, weighing rare words more, or None if no word has meaning."""
        ...


#: One computation at a time in each process. A workspace with many queries waits for its own.
computations = FairSlots(each=lambda: 1, total=lambda: 1)
#: How long a search waits for its turn before it goes on with the words alone.
QUERY_WAIT = 3.0
#: Who computes the vectors of documents that are indexed later.
INDEXING = "indexing"


class SentenceEmbedder:
    """Computes the meaning of whole sentences, on this machine."""

    name = SENTENCES
    dimensions = sentence_model.DIMENSIONS
    #: Texts that have nothing to do with each other have a similarity of up to this.
    weak_below = 0.3

    def __init__(self, holder: Hashable = INDEXING) -> None:
        self._holder = holder

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors, in small steps between which queries get their turn."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = texts[start : start + TEXTS_AT_ONCE]
            # A text must get its vector, so it waits for as long as it takes.
            while not computations.take(self._holder, seconds=60):
                pass
            try:
                vectors += sentence_model.sentence_model().encode(some).tolist()
            finally:
                computations.give_back(self._holder)
        return vectors

    def embed_query(self, query: str, rarity: Mapping[str, float]) -> Vector | None:

        def weight_of(word: str) -> float:
            return rarity.get(word.strip(EDGES).lower(), 1.0)

        if not any(weight_of(word) for word in query.split()):
            return None
        refusal = "The embedding model of this process is busy."
        with computations.hold(self._holder, seconds=QUERY_WAIT, refusal=refusal):
            vector = sentence_model.sentence_model().encode_query(query, weight_of)
        return cast("Vector", vector.tolist())


#: So many texts hold the model for about a tenth of a second.
TEXTS_AT_ONCE = 8


class WordLlamaEmbedder:
    """Averages static word vectors: small, fast and offline."""

    name = STATIC
    dimensions = 256
    weak_below = 0.3

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        import numpy as np

        vectors = wordllama_model().embed(list(texts))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units = vectors / np.where(lengths == 0, 1, lengths)
        return [[float(value) for value in unit] for unit in units]

    def embed_query(self, query: str, rarity: Mapping[str, float]) -> Vector | None:
        import numpy as np

        words = [(word, rarity.get(word.lower(), 1.0)) for word in split_words(query)]
        words = [(word, weight) for word, weight in words if weight > 0]
        model = wordllama_model()
        total = np.zeros(self.dimensions)
        for word, weight in words:
            ids = model.tokenizer.encode(word, add_special_tokens=False).ids
            known = [one for one in ids if one < len(model.embedding)]
            total += weight * model.embedding[known].sum(axis=0)
        length = float(np.linalg.norm(total))
        return [float(value) for value in total / length] if length else None


class RemoteEmbedder:
    """Calls a provider's model with the workspace's key."""

    def __init__(self, *, workspace_id: UUID, provider: str, model: str, dimensions: int) -> None:
        self.name = f"{provider}:{model}@{dimensions}"
        self.dimensions = dimensions
        self._workspace_id, self._provider, self._model = workspace_id, provider, model

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return self._ask(texts, query=False)

    def embed_query(self, query: str, rarity: Mapping[str, float]) -> Vector | None:
        # A sentence model cannot weigh words, but finds more without the common ones.
        words = split_words(query)
        rare = [word for word in words if rarity.get(word.lower(), 1.0) > COMMON] or words
        return self._ask([" ".join(rare)], query=True)[0] if rare else None

    def _ask(self, texts: Sequence[str], *, query: bool) -> list[Vector]:
        from agents.providers.embeddings import embed_texts

        return embed_texts(
            workspace_id=self._workspace_id,
            provider=self._provider,
            model=self._model,
            dimensions=self.dimensions,
            texts=texts,
            query=query,
        )


#: The embedders of plugins: each name with what makes an embedder for a workspace.
EMBEDDERS: dict[str, Callable[[UUID], Embedder]] = {}


def register_embedder(name: str, make: Callable[[UUID], Embedder], *, dimensions: int) -> None:
    """Add the embedding model of a plugin. `manage.py reembed --model NAME` moves memory to it."""
    from agents.providers.embeddings import model_named

    check_new(EMBEDDERS, name, kind="embedder")
    if name in (SENTENCES, STATIC) or model_named(name, ""):
        refuse("embedder", f"the name {name!r} is taken.")
    if type(dimensions) is not int or not 1 <= dimensions <= MOST_DIMENSIONS:
        refuse("embedder", f"{name} must have from 1 to {MOST_DIMENSIONS} dimensions.")
    check_callable(make, kind="embedder", what="make")

    def checked(workspace_id: UUID) -> Embedder:
        made = make(workspace_id)
        if (made.name, made.dimensions) != (name, dimensions):
            raise Invalid(
                f"The embedder {name} of {dimensions} dimensions calls itself {made.name} "
                f"of {made.dimensions}."
            )
        return made

    add(EMBEDDERS, name, checked, kind="embedder")


def embedder_named(name: str, *, workspace_id: UUID) -> Embedder:
    """Return the embedder for a name such as `minilm`, `gemini` or `openai:NAME@768`."""
    if name == SENTENCES:
        return SentenceEmbedder(workspace_id)
    if name == STATIC:
        return WordLlamaEmbedder()
    if name in EMBEDDERS:
        return EMBEDDERS[name](workspace_id)
    from agents.providers.embeddings import model_named

    provider, _, rest = name.partition(":")
    found = model_named(provider, rest)
    if found is None:
        raise Invalid(f"No embedding model is named {name!r}.")
    return RemoteEmbedder(
        workspace_id=workspace_id,
        provider=provider,
        model=found.model,
        dimensions=found.dimensions,
    )


@cache
def wordllama_model() -> WordLlamaInference:
    from pathlib import Path

    import wordllama

    # The loader's default folder is not the one that has the weights.
    return wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )
