"""Recall finds what was meant, says why, and shows nobody else's memory."""

from __future__ import annotations

from memory.recall import recall


def test_smoke(remember, reader):
    remember("notes/office.md", "The office closes at six on Fridays.")
    remember("notes/dog.md", "Ben's dog is called Pepper and hates thunder.")
    hits = recall(reader, "When does the office close?")
    print(hits)
    assert hits[0].path == "notes/office.md"
