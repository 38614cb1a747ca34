"""Tests of merging two changed copies of a text, and of diffs."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import diffs
from memory.diffs import counted, diff_lines, merge

BASE = "# Office\n\nThe kettle is red.\nThe door is open.\n\n## People\nOlive\nJun"
TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d"]), max_size=12).map("\n".join)


def test_changes_in_two_places_are_both_kept():
    mine = BASE.replace("red", "blue")
    theirs = BASE + "\nMarta"
    merged = merge(BASE, mine, theirs)

    assert merged.text == mine + "\nMarta"
    assert merged.clashes == 0


def test_identical_changes_are_merged_into_one():
    changed = BASE.replace("red", "blue")

    assert merge(BASE, changed, changed).text == changed


def test_a_conflict_keeps_both_texts_between_markers():
    merged = merge(BASE, BASE.replace("red", "blue"), BASE.replace("red", "green"))

    assert merged.clashes == 1
    clash = "<<<<<<< mine\nThe kettle is blue.\n=======\nThe kettle is green.\n>>>>>>> theirs"
    assert clash in merged.text
    assert merged.text.endswith("Olive\nJun")


@given(base=TEXTS, theirs=TEXTS)
def test_merging_an_unchanged_copy_gives_the_other_text(base, theirs):
    assert merge(base, base, theirs).text == theirs
    assert merge(base, theirs, base).text == theirs


@given(base=TEXTS, mine=TEXTS, theirs=TEXTS)
def test_no_line_of_either_is_lost(base, mine, theirs):
    merged = set(merge(base, mine, theirs).text.split("\n"))
    for own, other in ((mine, theirs), (theirs, mine)):
        added = set(own.split("\n")) - set(base.split("\n"))
        assert added <= merged, (own, other)


@given(before=TEXTS, after=TEXTS)
def test_a_diff_turns_the_old_text_into_the_new_one(before, after):
    lines = diff_lines(before, after)
    shown_old = {line.old: line.text for line in lines if line.kind in ("same", "removed")}
    shown_new = {line.new: line.text for line in lines if line.kind in ("same", "added")}

    assert all(before.split("\n")[at - 1] == text for at, text in shown_old.items())
    assert all(after.split("\n")[at - 1] == text for at, text in shown_new.items())
    removed = {line.old for line in lines if line.kind == "removed"}
    added = {line.new for line in lines if line.kind == "added"}
    kept_old = [t for n, t in enumerate(before.split("\n"), 1) if n not in removed]
    kept_new = [t for n, t in enumerate(after.split("\n"), 1) if n not in added]
    assert kept_old == kept_new


def test_lines_far_from_a_change_are_left_out():
    before = "\n".join(map(str, range(100)))
    lines = diff_lines(before, before.replace("\n50\n", "\nfifty\n"))

    assert counted(lines) == (1, 1)
    assert [line.kind for line in lines].count("gap") == 2
    assert len(lines) == 1 + 3 + 2 + 3 + 1
    assert diff_lines(before, before) == []


@pytest.mark.parametrize("text", ["x\n" * 50_000, "\n".join(str(n % 90) for n in range(30_000))])
def test_pathological_texts_are_compared_in_bounded_pieces(text, monkeypatch):
    compared: list[int] = []
    real = SequenceMatcher

    def watched(junk, old, new):
        compared.append(max(len(old), len(new)))
        return real(junk, old, new)

    monkeypatch.setattr(diffs, "SequenceMatcher", watched)
    added, removed = counted(diff_lines(text + "end", "start\n" + text.replace("9", "8") + "y"))

    assert added
    assert removed
    assert all(size <= diffs.MOST_LINES for size in compared)
