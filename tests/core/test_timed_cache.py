"""The timed cache on the path of every model call."""

from __future__ import annotations

import pytest
from django.db import transaction

from core.db import TimedCache


class Source:
    """A row that can change, and how often it was read."""

    def __init__(self) -> None:
        self.value, self.reads = "old", 0

    def read(self, key: str) -> str:
        self.reads += 1
        return self.value


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("core.db.time.monotonic", lambda: now[0])
    return now


def test_a_value_is_read_once_until_it_is_too_old(clock):
    source = Source()
    kept = TimedCache(source.read, seconds=5)

    assert [kept.get("a"), kept.get("a")] == ["old", "old"]
    assert source.reads == 1

    source.value = "new"
    clock[0] += 4.9
    assert kept.get("a") == "old"
    clock[0] += 0.2
    assert kept.get("a") == "new"


def test_what_was_read_before_the_commit_is_forgotten_after_it(
    db, django_capture_on_commit_callbacks
):
    source = Source()
    kept = TimedCache(source.read)
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        kept.forget("a")
        # Another thread loads now, and does not see the uncommitted change.
        kept.get("a")
        source.value = "new"

    assert kept.get("a") == "new"


def test_it_does_not_grow_for_ever(clock, monkeypatch):
    monkeypatch.setattr("core.db.MOST_CACHED", 3)
    source = Source()
    kept = TimedCache(source.read)

    for key in "abcdefg":
        kept.get(key)

    assert len(kept._entries) <= 3
