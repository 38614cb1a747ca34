"""Markdown of agents, as pages show it."""

from __future__ import annotations

import pytest

from core import markdown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Trains\n\n- **one** at `7:05`\n- two", "Trains · one at 7:05 · two"),
        ("Read [the plan](https://a.example/plan).", "Read the plan."),
        ("A word re**bui**lt, a_name_kept, 3 * 4 > 5", "A word rebuilt, a_name_kept, 3 * 4 > 5"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a · b · 1 · 2"),
        ("```sh\nls | wc\n```", "ls | wc"),
        ("first\nsecond", "first second"),
        ("It is so.\n\nWhy? Because:\n\n- of this", "It is so. Why? Because: of this"),
        ("<b>kept as it is</b>", "<b>kept as it is</b>"),
    ],
)
def test_plain_words_have_no_signs_of_markdown_and_lose_nothing_else(text, words):
    assert markdown.plain(text) == words


def test_an_excerpt_ends_where_it_must():
    assert markdown.excerpt("**one** two three", longest=8) == "one two…"
