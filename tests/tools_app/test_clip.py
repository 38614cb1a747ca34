"""Tests that long outputs are clipped for the model and can be stored."""

from __future__ import annotations

from core.validation import storable
from tools_app.taint import clip_for_model


def test_a_short_text_is_unchanged():
    assert clip_for_model("abc", 3) == "abc"


def test_head_and_tail_are_kept_with_a_note_about_the_cut():
    clipped = clip_for_model("a" * 5_000 + "b" * 5_000, 300)

    assert clipped.startswith("a" * 200 + "\n\n[… 9,700 of 10,000 characters were cut here …]")
    assert clipped.endswith("…]\n\n" + "b" * 100)


def test_characters_that_the_database_refuses_are_replaced():
    assert storable("a\x00b\ud800c\n\t") == "a\ufffdb\ufffdc\n\t"
