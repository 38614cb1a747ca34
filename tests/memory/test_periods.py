"""Tests that times in a query are understood, and prefer notes of that time."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.utils import timezone

from memory.models import MemoryEntry
from memory.periods import period_in
from memory.recall import recall

#: A Wednesday.
TODAY = date(2026, 11, 18)


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("what happened yesterday?", "2026-11-17", "2026-11-17"),
        ("What did I do today", "2026-11-18", "2026-11-18"),
        ("last week's plan", "2026-11-09", "2026-11-15"),
        ("this week", "2026-11-16", "2026-11-22"),
        ("two weeks ago", "2026-11-02", "2026-11-08"),
        ("3 days ago", "2026-11-15", "2026-11-15"),
        ("in the past 10 days", "2026-11-08", "2026-11-18"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("what did we decide in May?", "2026-05-01", "2026-05-31"),
        ("in December", "2025-12-01", "2025-12-31"),
        ("in February 2024", "2024-02-01", "2024-02-29"),
        ("the talk of 2026-03-04", "2026-03-04", "2026-03-04"),
        ("on Monday", "2026-11-16", "2026-11-16"),
        ("on wednesday", "2026-11-11", "2026-11-11"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("during 2023", "2023-01-01", "2023-12-31"),
    ],
)
def test_a_time_in_a_query_is_understood(query, first, last):
    found = period_in(query, TODAY)

    assert found
    assert (found.first, found.last) == (first, last)


@pytest.mark.parametrize(
    "query",
    [
        "may I bring a dog?",
        "march along",
        "2026-99-99",
        "999 months ago was long",
        "the weekend",
        "",
    ],
)
def test_other_queries_name_no_time(query):
    found = period_in(query, TODAY)

    assert found is None or found.first < "1950"


def test_a_note_of_the_time_that_is_asked_for_comes_first(remember, reader):
    today = timezone.now().date()
    for back in range(5):
        day = today - timedelta(days=back)
        remember(f"daily/{day:%Y-%m-%d}.md", f"Met customer {back} about the contract.")

    hits = recall(reader, "Which customer did we meet yesterday?")

    assert hits[0].path == f"daily/{today - timedelta(days=1):%Y-%m-%d}.md"
    assert hits[0].parts["dated"] > 0
    assert "dated" in hits[0].why
    assert all(hit.parts["dated"] == 0 for hit in hits[1:])
    assert len(hits) == 5, "a time drops no other note"


def test_a_note_without_a_date_in_its_path_is_of_the_day_it_was_changed(remember, reader):
    old = remember("old.md", "Met the customer about the contract.")
    remember("new.md", "Saw the customer about the contract.")
    then = timezone.now() - timedelta(days=1)
    MemoryEntry.objects.filter(pk=old.pk).update(updated_at=then)

    assert recall(reader, "customer yesterday")[0].path == "old.md"
