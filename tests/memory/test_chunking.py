"""Tests of chunking: documents are split into overlapping chunks with their context."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.providers.base import estimate_tokens
from memory.chunking import CHUNK_TOKENS, LONGEST_LINE, MOST_ITEMS, OVERLAP_TOKENS, chunk

#: A line of wrapped prose, which is not a sentence of its own.
LINE = "and the quick brown fox jumps over the lazy dog near river {} and\n"


def texts(content: str) -> list[str]:
    return [piece.text for piece in chunk("a.md", content)]


def test_a_short_document_is_one_chunk_and_an_empty_one_has_none():
    assert texts("Hello\n\nWorld") == ["Hello\n\nWorld"]
    assert texts(" \n\n") == []


def test_chunks_are_limited_in_size_and_overlap():
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


def test_each_item_of_a_list_is_a_chunk_under_its_headings():
    pieces = chunk(
        "MEMORY.md", "# Ada\n- likes tea\n  but not green\n- has a cat\n## Work\n1. Bank\n"
    )

    assert [piece.text for piece in pieces] == [
        "- likes tea\n  but not green",
        "- has a cat",
        "1. Bank",
    ]
    assert [piece.label for piece in pieces] == ["MEMORY · Ada"] * 2 + ["MEMORY · Ada · Work"]
    assert pieces[1].beside == "- likes tea\n  but not green\n1. Bank"


def test_a_sentence_on_its_own_line_is_a_chunk():
    assert texts("Deploys are frozen.\nThe backup is in Oslo!") == [
        "Deploys are frozen.",
        "The backup is in Oslo!",
    ]


def test_text_between_list_items_keeps_its_place_and_heading():
    assert texts("# Old\n\n# New\nabout this\n- one\n- two\n\nthe end") == [
        "# Old\n\nabout this",
        "- one",
        "- two",
        "the end",
    ]


@pytest.mark.parametrize("inside", ["", "~~~\n", "``\n"])
def test_code_is_not_a_list(inside):
    code = f"```\n- one\n{inside}" + "- two\n" * 6 + "# three\n```"

    assert texts(code) == [code]


def test_a_longer_code_fence_can_contain_a_shorter_one():
    code = "````\n```\n- one\n- two\n```\n- three\n````"

    assert texts(code) == [code]


def test_prose_with_a_few_bullets_is_not_a_list():
    prose = LINE * 6 + "- one\n- two"

    assert texts(prose) == [prose]


def test_a_very_long_list_is_split_by_size():
    assert len(texts("- a\n" * MOST_ITEMS)) == MOST_ITEMS
    assert len(texts("- a\n" * (MOST_ITEMS + 1))) < MOST_ITEMS / 10


def test_the_chunks_of_a_transcript_name_their_speakers():
    pieces = chunk("talk.md", "# Day 1\n- **Ada:** Hello there\n[14:03] Bob: Hi\n\nno one\n")

    assert [piece.speakers for piece in pieces] == ["Ada", "Bob", ""]
    assert [piece.label for piece in pieces] == ["talk · Day 1"] * 3


@given(st.lists(st.text(max_size=3 * LONGEST_LINE), max_size=12))
def test_no_word_is_lost_and_no_chunk_is_too_large(lines):
    content = "\n".join(lines)
    pieces = chunk("a.md", content)
    texts = [piece.text for piece in pieces]
    # A word may be split between two chunks, or end one.
    words = set("".join(texts).split()) | set(" ".join(texts).split())

    assert set(content.split()) <= words or len(max(content.split(), key=len)) > 300
    assert all(len(piece.text) <= 4 * CHUNK_TOKENS + LONGEST_LINE for piece in pieces)
