"""Documents are split into chunks that overlap and know what is around them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agents.providers.estimate import estimate_tokens
from memory.chunking import CHUNK_TOKENS, LONGEST_LINE, OVERLAP_TOKENS, chunk, chunk_lines

LINE = "The quick brown fox jumps over the lazy dog near river {}.\n"


def test_a_short_document_is_one_chunk_and_an_empty_one_none():
    assert [piece.text for piece in chunk("a.md", "Hello.\n\nWorld.")] == ["Hello.\n\nWorld."]
    assert chunk("a.md", " \n\n") == []


def test_chunks_are_bounded_and_overlap():
    pieces = chunk("a.md", "".join(LINE.format(number) for number in range(200)))

    assert len(pieces) > 5
    for before, after in pairwise(pieces):
        shared = [line for line in after.text.splitlines() if line in before.text.splitlines()]
        assert 0 < estimate_tokens("\n".join(shared)) <= OVERLAP_TOKENS
        assert after.text.startswith(shared[0])
    assert all(estimate_tokens(piece.text) <= CHUNK_TOKENS for piece in pieces)


def test_a_chunk_knows_its_path_its_headings_and_its_neighbours():
    text = "# Trips\n## Norway\n" + LINE * 18 + "## Peru\nLlamas everywhere.\n"
    pieces = chunk("travel/2026-plans.md", text)

    assert pieces[-1].label == "travel 2026 plans · Trips · Peru"
    assert pieces[-1].text == "## Peru\nLlamas everywhere."
    assert "river" in pieces[-1].beside
    assert "Llamas" in pieces[-2].beside


def test_a_transcript_says_who_speaks():
    pieces = chunk_lines("talk.md", "# Day 1\n- **Ada:** Hello there\n[14:03] Bob: Hi\n\nno one\n")

    assert [piece.speakers for piece in pieces] == ["Ada", "Bob", ""]
    assert [piece.label for piece in pieces] == ["talk · Day 1"] * 3


@given(st.lists(st.text(max_size=3 * LONGEST_LINE), max_size=12))
def test_no_word_is_lost_and_no_chunk_is_huge(lines):
    content = "\n".join(lines)
    pieces = chunk("a.md", content)
    said = "".join(piece.text for piece in pieces)

    assert set(content.split()) <= set(said.split()) or len(max(content.split(), key=len)) > 300
    assert all(len(piece.text) <= 4 * CHUNK_TOKENS + LONGEST_LINE for piece in pieces)
