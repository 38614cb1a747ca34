"""Tests of plain text made from Markdown."""

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
def test_plain_text_has_no_markup_and_loses_nothing_else(text, words):
    assert markdown.plain(text) == words


def test_an_excerpt_is_cut_at_its_maximum_length():
    assert markdown.excerpt("**one** two three", longest=8) == "one two…"
