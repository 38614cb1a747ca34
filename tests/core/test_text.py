"""Tests that characters which could hide something are made visible."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from core.text import CATEGORIES, reveal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm \u202efdp.exe", r"rm \u202efdp.exe"),
        ("pay\u200bpal", r"pay\u200bpal"),
        ("a\u2066b\u2069", r"a\u2066b\u2069"),
        ("tag\U000e0041", r"tag\udb40\udc41"),
        ("\u3164", r"\u3164"),
        ("a\x1b[2K", r"a\u001b[2K"),
        ("soft\u00adhyphen", r"soft\u00adhyphen"),
        ("l\u200di", r"l\u200di"),
    ],
)
def test_a_character_that_hides_something_is_shown_as_an_escape(text, shown):
    assert reveal(text) == shown


@pytest.mark.parametrize(
    "text", ["plain", "Grüße, 世界", "שלום", "line\n\tindented", "👩‍👩‍👧 ❤️‍🔥", "café"]
)
def test_what_people_write_stays_as_it_is(text):
    assert reveal(text) == text


def test_arguments_that_are_shown_with_escapes_stay_the_same_arguments():
    arguments = {"command": "echo \u202e\U000e0041\u200b \\u202e"}
    shown = reveal(json.dumps(arguments, ensure_ascii=False))

    assert json.loads(shown) == arguments


def test_no_character_of_these_categories_passes():
    passing = [
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in CATEGORIES
        and chr(code) not in "\n\t"
        and reveal(chr(code)) == chr(code)
    ]

    assert passing == []
