"""Measures how well and how fast memory recalls: on a benchmark file, and among a thousand agents.

`python bench/memory.py FILE.json` takes conversations in the form of LoCoMo: a list of
`{"conversation": {"session_1": [{"speaker", "dia_id", "text"}], "session_1_date_time": …},
"qa": [{"question", "evidence": ["D1:3"], "category"}]}`. A question scores the share of its
evidence turns in the first hits; a turn is a chunk, as memory splits transcripts. Without a
file it measures speed.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.bm25 import BM25
from bench.memory_crowd import Writer, fill
from bench.yard import spread, yard

#: Questions of this category have no answer in the conversation.
ADVERSARIAL = 5
CUTS = (1, 5, 10)
ENTRIES, AGENTS, ASKED = 100_000, 1_000, 200

Ranking = Callable[[str], list[Any]]
#: By chunk: its turns and its text.
Turns = dict[Any, tuple[set[str], str]]


def main() -> None:
    with yard():
        if len(sys.argv) > 1:
            measure_quality(json.loads(Path(sys.argv[1]).read_text()))
        else:
            measure_speed()


def measure_quality(samples: list[dict[str, Any]]) -> None:
    from memory.ranking import Weights

    alone = {"neighbours": 0.0, "named": 0.0, "recency": 0.0, "pin": 0.0}
    ways = {
        "text": Weights(meaning=0.0, label=0.0, beside=0.0, **alone),
        "vector": Weights(text=0.0, **alone),
        "fused": Weights(),
    }
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
        print(f"{name:14} recall {shown}   MRR {mrr:.3f}   {spread([one[2] for one in scores])}")
    print(f"{len(next(iter(results.values())))} questions")


def load(sample: dict[str, Any]) -> tuple[Any, Turns]:
    """Store one conversation as an agent's memory. Return its reader and the turns in each chunk."""
    from agents.definitions import create_agent
    from memory.documents import write_entry
    from memory.models import MemoryVersion
    from memory.ownership import Author, Reader, owner_within
    from orchestrator.workspaces import create_workspace

    workspace = create_workspace(name="Bench", owner=None)
    fields = {"name": "Bench", "provider": "demo", "model": "demo"}
    agent = create_agent(workspace_id=workspace.pk, fields=fields)
    reader = Reader(workspace_id=workspace.pk, agent_id=agent.pk)
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
    return reader, turns


def _line(turn: dict[str, Any]) -> str:
    """Return a turn on one line, with its picture's caption, short enough not to be cut."""
    text = f"{turn['text']} {turn.get('blip_caption', '')}"
    return " ".join(text.split())[:1_100]


def ranked(reader: Any, weights: Any, *, thin: bool = False) -> Ranking:
    from memory.recall import Search, recall

    search = Search(limit=max(CUTS), weights=weights, thin=thin)
    return lambda query: [hit.chunk_id for hit in recall(reader, query, search)]


def plain_vectors(reader: Any) -> Ranking:
    """Rank by the embedding of the whole, unchanged question."""
    from pgvector.django import CosineDistance

    from memory.embedders import WordLlamaEmbedder
    from memory.models import MemoryVector

    rows = MemoryVector.objects.filter(owner_id__in=reader.owner_ids)

    def rank(query: str) -> list[Any]:
        near = CosineDistance("vector", WordLlamaEmbedder().embed([query])[0])
        return list(rows.order_by(near).values_list("chunk_id", flat=True)[: max(CUTS)])

    return rank


def score(
    question: dict[str, Any], rank: Ranking, turns: Turns
) -> tuple[list[float], float, float]:
    """Return recall at each cut, reciprocal rank and milliseconds."""
    wanted = {part for one in question["evidence"] for part in one.replace(";", " ").split()}
    began = time.perf_counter()
    found = [turns[one][0] for one in rank(question["question"])]
    took = (time.perf_counter() - began) * 1000
    places = [place for place, held in enumerate(found, 1) if held & wanted]
    recalls = [len(wanted.intersection(set().union(*found[:cut]))) / len(wanted) for cut in CUTS]
    return recalls, 1 / places[0] if places else 0.0, took


def measure_speed() -> None:
    from django.db import connection

    from agents.definitions import create_agent
    from memory.embedders import WordLlamaEmbedder
    from memory.embeddings import ensure_index, index_name
    from memory.ownership import Reader
    from orchestrator.workspaces import create_workspace

    workspace = create_workspace(name="Crowd", owner=None)
    fields = {"name": "Bench", "provider": "demo", "model": "demo"}
    agents = [create_agent(workspace_id=workspace.pk, fields=fields).pk for _ in range(AGENTS)]
    writer = Writer()
    with connection.cursor() as cursor:
        # Building the index at the end is faster than row by row.
        cursor.execute(f"DROP INDEX {index_name(WordLlamaEmbedder.name)}")
    began = time.perf_counter()
    texts = fill(workspace.pk, agents, ENTRIES, writer=writer)
    filled = time.perf_counter()
    ensure_index(WordLlamaEmbedder())
    built = time.perf_counter()
    print(f"{ENTRIES:,} entries: {filled - began:.0f} s, and {built - filled:.0f} s for the index")
    chance = random.Random(3)  # noqa: S311 - a choice of questions
    asked = [writer.question(text) for text in chance.sample(sorted(texts.values()), ASKED)]
    one = [Reader(workspace_id=workspace.pk, agent_id=agent) for agent in agents[:ASKED]]
    everyone = [Reader(workspace_id=workspace.pk, whole_workspace=True)] * ASKED
    compare("one agent of a thousand", list(zip(one, asked, strict=True)))
    compare("the whole workspace", list(zip(everyone, asked, strict=True))[:50])


def compare(name: str, questions: list[tuple[Any, str]]) -> None:
    from memory.recall import Search, recall

    millis, kept, total = [], 0, 0
    for reader, question in questions:
        began = time.perf_counter()
        quick = recall(reader, question, Search(thin=False))
        millis.append((time.perf_counter() - began) * 1000)
        exact = recall(reader, question, Search(thin=False, exact_up_to=10 * ENTRIES))
        kept += len({hit.chunk_id for hit in quick} & {hit.chunk_id for hit in exact})
        total += len(exact)
    print(f"{name:26} {spread(millis)}   {kept / total:.1%} of the exact first ten")


if __name__ == "__main__":
    main()
