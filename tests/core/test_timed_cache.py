"""Tests of the timed cache that every model call uses."""

from __future__ import annotations

import pytest
from django.db import transaction

from core.db import TimedCache


class Source:
    """Stands for a row that can change, and counts its reads."""

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


def test_a_value_is_read_once_until_it_expires(clock):
    source = Source()
    cache = TimedCache(source.read, seconds=5)

    assert [cache.get("a"), cache.get("a")] == ["old", "old"]
    assert source.reads == 1

    source.value = "new"
    clock[0] += 4.9
    assert cache.get("a") == "old"
    clock[0] += 0.2
    assert cache.get("a") == "new"


def test_only_one_thread_loads_an_expired_value(clock):
    source = Source()
    meanwhile: list[str] = []

    def load(key: str) -> str:
        if source.reads == 1:
            # What the other threads get while this one loads.
            meanwhile.extend(cache.get(key) for _ in range(3))
        return source.read(key)

    cache = TimedCache(load, seconds=5)
    cache.get("a")
    source.value = "new"
    clock[0] += 5.1

    assert cache.get("a") == "new"
    assert meanwhile == ["old"] * 3
    assert source.reads == 2


def test_a_value_that_expired_long_ago_is_not_returned_again(clock):
    source = Source()
    meanwhile: list[str] = []

    def load(key: str) -> str:
        if source.reads == 1:
            source.reads += 1
            meanwhile.append(cache.get(key))
        return source.read(key)

    cache = TimedCache(load, seconds=5)
    cache.get("a")
    source.value = "new"
    clock[0] += 60

    assert cache.get("a") == "new"
    assert meanwhile == ["new"]


def test_a_value_read_before_the_commit_is_forgotten_after_it(
    db, django_capture_on_commit_callbacks
):
    source = Source()
    cache = TimedCache(source.read)
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        cache.forget("a")
        # Another thread loads now, and does not see the uncommitted change.
        cache.get("a")
        source.value = "new"

    assert cache.get("a") == "new"


def test_the_cache_does_not_grow_without_bound(clock, monkeypatch):
    monkeypatch.setattr("core.db.MOST_CACHED", 3)
    source = Source()
    cache = TimedCache(source.read)

    for key in "abcdefg":
        cache.get(key)

    assert len(cache._entries) <= 3
