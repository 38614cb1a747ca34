"""Measures how well and how fast memory recalls: on a benchmark file, and among a thousand agents.

`python bench/memory.py FILE.json` takes conversations in the form of LoCoMo: a list of
`{"conversation": {"session_1": [{"speaker", "dia_id", "text"}], "session_1_date_time": …},
"qa": [{"question", "evidence": ["D1:3"], "category"}]}`. A question scores the share of its
evidence turns in the first hits; a turn is a chunk, as memory splits transcripts. The first two
conversations are those on which the weights were chosen, and are counted apart. Captions of pictures
are left out. Without a file it measures the paraphrases in `tests/memory/paraphrases.py` and speed.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from bench.memory_crowd import Writer, fill

#: Questions of this category have no answer in the conversation.
ADVERSARIAL = 5
CUTS = (1, 5, 10)
#: How many conversations at the beginning of the file the weights were chosen on.
CHOSEN_ON = 2

Ranking = Callable[[str], list[Any]]
#: By chunk: its turns and its text.
Turns = dict[Any, tuple[set[str], str]]


def main() -> None:
    counts = {"entries": 100_000, "agents": 1_000, "questions": 200}
    options = installation.parse_options(
        __doc__, file_help="measure recall on this benchmark", **counts
    )
    with installation.running():
        if options.file:
            measure_quality(json.loads(options.file.read_text()))
        else:
            measure_paraphrases()
            measure_indexing()
            measure_agent()
            measure_speed(options.entries, options.agents, options.questions)


def measure_quality(samples: list[dict[str, Any]]) -> None:
    from memory.ranking import Weights

    alone = {"neighbours": 0.0, "document": 0.0, "named": 0.0, "recency": 0.0, "pin": 0.0}
    ways = {
        "text": Weights(meaning=0.0, label=0.0, beside=0.0, **alone),
        "vector": Weights(text=0.0, **alone),
        "fused": Weights(),
    }
    for title, some in (("chosen on", samples[:CHOSEN_ON]), ("unseen", samples[CHOSEN_ON:])):
        if some:
            print(f"{title}: {len(some)} conversations")
            measure_samples(some, ways)


def measure_samples(samples: list[dict[str, Any]], ways: Mapping[str, Any]) -> None:
    from memory.ranking import Weights

    results: dict[str, list[tuple[list[float], float, float]]] = {}
    for sample in samples:
        reader, turns = load(sample)
        rankings: dict[str, Ranking] = {"bm25": BM25({k: t for k, (_, t) in turns.items()}).rank}
        rankings |= {name: ranked(reader, weights) for name, weights in ways.items()}
        rankings["as tools search"] = ranked(reader, Weights(), thin=True)
        rankings["vector, plain"] = plain_vectors(reader)
        for question in sample["qa"]:
            if question.get("category") != ADVERSARIAL and question.get("evidence"):
                for name, rank in rankings.items():
                    results.setdefault(name, []).append(score(question, rank, turns))
    for name, scores in results.items():
        at = [statistics.mean(one[0][cut] for one in scores) for cut in range(len(CUTS))]
        shown = "  ".join(f"@{cut} {value:6.1%}" for cut, value in zip(CUTS, at, strict=True))
        mrr = statistics.mean(one[1] for one in scores)
        print(
            f"{name:14} recall {shown}   MRR {mrr:.3f}   {installation.spread([one[2] for one in scores])}"
        )
    print(f"{len(next(iter(results.values())))} questions")


def load(sample: dict[str, Any]) -> tuple[Any, Turns]:
    """Store one conversation as an agent's memory. Return its reader and the turns in each chunk."""
    from memory.documents import write_entry
    from memory.index import add_awaited_vectors
    from memory.models import MemoryVersion
    from memory.ownership import Author, Reader, owner_within

    [agent] = installation.make_agents()
    reader = Reader(workspace_id=agent.workspace_id, agent_id=agent.pk)
    talk = sample["conversation"]
    turns: Turns = {}
    for name in [key for key in talk if key.startswith("session_") and isinstance(talk[key], list)]:
        said = [one for one in talk[name] if one.get("text", "").strip()]
        lines = [f"{one['speaker']}: {_line(one)}" for one in said]
        entry = write_entry(
            owner=owner_within(reader, "agent"),
            path=f"talk/{name}.md",
            content=f"# {talk.get(f'{name}_date_time', name)}\n" + "\n".join(lines),
            author=Author(kind=MemoryVersion.Author.IMPORT),
        )
        for piece in entry.chunks.all():
            held = set(piece.text.splitlines())
            ids = {one["dia_id"] for one, line in zip(said, lines, strict=True) if line in held}
            turns[piece.pk] = (ids, piece.text)
    while add_awaited_vectors():
        pass
    return reader, turns


def _line(turn: dict[str, Any]) -> str:
    """Return a turn on one line, short enough not to be cut."""
    return " ".join(turn["text"].split())[:1_100]


def ranked(reader: Any, weights: Any, *, thin: bool = False) -> Ranking:
    from memory.recall import Search, recall

    search = Search(limit=max(CUTS), weights=weights, thin=thin)
    return lambda query: [hit.chunk_id for hit in recall(reader, query, search)]


def plain_vectors(reader: Any) -> Ranking:
    """Rank by the embedding of the whole, unchanged question."""
    from pgvector.django import CosineDistance

    from memory.embeddings import chosen_embedder
    from memory.models import MemoryVector

    embedder = chosen_embedder(reader.workspace_id)
    rows = MemoryVector.objects.filter(owner_id__in=reader.owner_ids, model=embedder.name)

    def rank(query: str) -> list[Any]:
        near = CosineDistance("vector", embedder.embed([query])[0])
        return list(rows.order_by(near).values_list("chunk_id", flat=True)[: max(CUTS)])

    return rank


def score(
    question: dict[str, Any], rank: Ranking, turns: Turns
) -> tuple[list[float], float, float]:
    """Return recall at each cut, reciprocal rank and milliseconds."""
    wanted = {part for one in question["evidence"] for part in one.replace(";", " ").split()}
    began = time.perf_counter()
    found = [turns[one][0] for one in rank(question["question"])]
    took = installation.milliseconds_since(began)
    places = [place for place, held in enumerate(found, 1) if held & wanted]
    recalls = [len(wanted.intersection(set().union(*found[:cut]))) / len(wanted) for cut in CUTS]
    return recalls, 1 / places[0] if places else 0.0, took


def measure_paraphrases() -> None:
    """Print how many notes are found by a question in other words, among all the notes."""
    from memory.recall import Search, recall
    from tests.memory import paraphrases

    reader = note_paraphrases()
    for title, pairs in (
        ("chosen on", paraphrases.CHOSEN_ON),
        ("kept aside", paraphrases.KEPT_ASIDE),
    ):
        places = []
        for _, note, question in pairs:
            hits = recall(reader, question, Search(limit=10))
            places.append(next((at for at, hit in enumerate(hits, 1) if note in hit.text), 0))
        found = [sum(0 < place <= cut for place in places) for cut in (1, 3, 10)]
        print(f"paraphrases {title}: {found} of {len(pairs)} in the first 1, 3 and 10")


def note_paraphrases() -> Any:
    from memory.documents import write_entry
    from memory.models import MemoryVersion
    from memory.ownership import Author, Reader, owner_within
    from tests.memory import paraphrases

    [agent] = installation.make_agents()
    reader = Reader(workspace_id=agent.workspace_id, agent_id=agent.pk)
    for path in paraphrases.NOTES:
        write_entry(
            owner=owner_within(reader, "agent"),
            path=path,
            content=paraphrases.content_of(path),
            author=Author(kind=MemoryVersion.Author.IMPORT),
        )
    return reader


def measure_indexing(notes: int = 1_000) -> None:
    """Print how long the vectors of many notes take, the model's memory and a query's time."""
    import psutil

    from memory.embedders import SentenceEmbedder

    process = psutil.Process()
    before = process.memory_info().rss
    embedder = SentenceEmbedder()
    began = time.perf_counter()
    embedder.embed(["first"])
    first = installation.milliseconds_since(began)
    loaded = process.memory_info().rss
    writer = Writer()
    cpu = time.process_time()
    embedder.embed([f"{writer.text()}." for _ in range(notes)])
    cpu = time.process_time() - cpu
    after = process.memory_info().rss
    millis = []
    for _ in range(200):
        question = writer.question(writer.text())
        began = time.perf_counter()
        embedder.embed_query(question, {})
        millis.append(installation.milliseconds_since(began))
    print(f"first text {first:.0f} ms; {notes:,} notes {cpu:.1f} s of one core")
    print(f"memory: {(loaded - before) / 1e6:.0f} MB loaded, {(after - before) / 1e6:.0f} MB after")
    print(f"vector of a question {installation.spread(millis)}")


def measure_agent(documents: int = 1_000, questions: int = 200) -> None:
    """Print how fast an agent with this many documents is searched, by each embedded model in turn."""
    from memory.embedders import STATIC, default_model
    from memory.embeddings import move
    from memory.models import EmbeddingChoice
    from memory.ownership import Reader
    from memory.recall import Search, recall

    [agent] = installation.make_agents()
    writer = Writer()
    texts = list(fill(agent.workspace_id, [agent.pk], documents, writer=writer).values())
    began = time.perf_counter()
    move(agent.workspace_id, default_model())
    print(f"reembed of {documents:,} documents {time.perf_counter() - began:.1f} s")
    reader = Reader(workspace_id=agent.workspace_id, agent_id=agent.pk)
    millis: dict[str, list[float]] = {STATIC: [], default_model(): []}
    for text in texts[:questions]:
        question = writer.question(text)
        for model, times in millis.items():
            EmbeddingChoice.objects.filter(workspace_id=agent.workspace_id).update(model=model)
            began = time.perf_counter()
            recall(reader, question, Search())
            times.append(installation.milliseconds_since(began))
    for model, times in millis.items():
        print(f"an agent of {documents:,} documents, {model:10} {installation.spread(times)}")


def measure_speed(entries: int, agents: int, questions: int) -> None:
    from django.db import connection

    from memory.embedders import WordLlamaEmbedder
    from memory.embeddings import ensure_index, index_name
    from memory.ownership import Reader

    made, writer = installation.make_agents(agents), Writer()
    workspace_id = made[0].workspace_id
    with connection.cursor() as cursor:
        # Building the index at the end is faster than row by row.
        cursor.execute(f"DROP INDEX {index_name(WordLlamaEmbedder.name)}")
    began = time.perf_counter()
    texts = fill(workspace_id, [agent.pk for agent in made], entries, writer=writer)
    filled = time.perf_counter()
    ensure_index(WordLlamaEmbedder())
    built = time.perf_counter()
    print(f"{entries:,} entries: {filled - began:.0f} s, and {built - filled:.0f} s for the index")
    chance = random.Random(3)  # noqa: S311 - a choice of questions
    asked = [writer.question(text) for text in chance.sample(sorted(texts.values()), questions)]
    asking = islice(cycle(made), questions)
    one = [Reader(workspace_id=workspace_id, agent_id=agent.pk) for agent in asking]
    everyone = Reader(workspace_id=workspace_id, whole_workspace=True)
    compare(f"one agent of {agents:,}", list(zip(one, asked, strict=True)), 10 * entries)
    compare("the whole workspace", [(everyone, text) for text in asked[:50]], 10 * entries)


def compare(name: str, questions: list[tuple[Any, str]], exact_up_to: int) -> None:
    """Print how fast the search is, and how much it finds of what an exact search finds."""
    from memory.recall import Search, recall

    millis, kept, total = [], 0, 0
    for reader, question in questions:
        began = time.perf_counter()
        quick = recall(reader, question, Search(thin=False))
        millis.append(installation.milliseconds_since(began))
        exact = recall(reader, question, Search(thin=False, exact_up_to=exact_up_to))
        kept += len({hit.chunk_id for hit in quick} & {hit.chunk_id for hit in exact})
        total += len(exact)
    print(f"{name:26} {installation.spread(millis)}   {kept / total:.1%} of the exact first ten")


K1, B = 1.2, 0.75


class BM25:
    """Ranks by plain BM25 over stemmed words, as a baseline for recall."""

    def __init__(self, texts: Mapping[Any, str]) -> None:
        self._words = {key: Counter(stems(text)) for key, text in texts.items()}
        self._length = {key: sum(words.values()) for key, words in self._words.items()}
        self._mean = sum(self._length.values()) / max(len(texts), 1)
        self._having = Counter(word for words in self._words.values() for word in words)

    def rank(self, query: str, limit: int = 10) -> list[Any]:
        words = set(stems(query))
        scores = {key: self._score(key, words) for key in self._words}
        best = sorted(scores, key=lambda key: -scores[key])
        return [key for key in best[:limit] if scores[key] > 0]

    def _score(self, key: Any, words: set[str]) -> float:
        count = len(self._words)
        total = 0.0
        for word in words & self._words[key].keys():
            having, times = self._having[word], self._words[key][word]
            rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
            long = 1 - B + B * self._length[key] / self._mean
            total += rarity * times * (K1 + 1) / (times + K1 * long)
        return total


def stems(text: str) -> list[str]:
    """Return the words as PostgreSQL stems them, without stop words."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('english', %s))", [text]
        )
        return [lexeme for lexeme, times in cursor.fetchall() for _ in range(times)]


if __name__ == "__main__":
    main()
