"""Tests of excerpts: they show the match, and the lines around a short text."""

from __future__ import annotations

from memory.recall import EXCERPT_CHARACTERS, make_excerpt, recall


def test_an_excerpt_of_a_long_text_shows_the_match():
    text = "filler words " * 100 + "the needle is here " + "more filler " * 100
    excerpt = make_excerpt(text, "where is the needle?")

    assert "needle" in excerpt
    assert len(excerpt) <= EXCERPT_CHARACTERS + 4


def test_a_short_text_is_shown_with_the_lines_around_it():
    assert make_excerpt("b", "b", before="z\na", after="c\nd") == "z\na\nb\nc\nd"


def test_lines_that_chunks_share_are_shown_once():
    assert make_excerpt("b\nc", "b", before="a\nb", after="c\nd") == "a\nb\nc\nd"


def test_only_whole_lines_that_fit_are_added():
    long = "x" * EXCERPT_CHARACTERS
    excerpt = make_excerpt("Ada: yes", "yes", before=f"{long}\nBob: tea?", after=long)

    assert excerpt == "Bob: tea?\nAda: yes"


def test_a_fact_is_shown_below_its_headings(remember, reader):
    remember("people.md", "# Ada\n## Kitchen\n- likes tea\n- owns a kettle\n# Bob\n- likes milk")
    hit = recall(reader, "who owns a kettle")[0]

    assert hit.text == "- owns a kettle"
    assert hit.excerpt.splitlines()[0] == "# Ada · Kitchen"


def test_a_turn_is_recalled_with_the_turns_around_it(remember, reader):
    remember("talk.md", "Ada: Where were you?\nBob: On the roof.\nAda: I see.")
    hit = recall(reader, "the roof")[0]

    assert hit.text == "Bob: On the roof."
    assert hit.excerpt == "Ada: Where were you?\nBob: On the roof.\nAda: I see."
