"""Tests of reads that threads share: no result is older than its question, and few reads are made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import transaction

from core.single_flight import SingleFlight

SECONDS = 20


class SlowRead:
    """Returns how many reads began before it, and ends when it is let go."""

    def __init__(self) -> None:
        self.count = 0
        self.began = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def __call__(self) -> int:
        self.count += 1
        number = self.count
        self.began.release()
        assert self.let_go.acquire(timeout=SECONDS)
        return number


@pytest.fixture
def ask():
    """Return a function that asks on a thread of its own, and returns when the thread waits."""
    with ThreadPoolExecutor(20) as threads:

        def start(
            flights: SingleFlight[str, int], key: str, load: Callable[[], int]
        ) -> Future[int]:
            asked = threading.Event()
            join = flights._join

            def noted(key: str):
                joined = join(key)
                asked.set()
                return joined

            flights._join = noted  # type: ignore[method-assign]
            future = threads.submit(flights.read, key, load)
            assert asked.wait(SECONDS)
            flights._join = join  # type: ignore[method-assign]
            return future

        yield start


def test_those_who_come_during_a_read_share_the_next_one(ask):
    flights: SingleFlight[str, int] = SingleFlight()
    load = SlowRead()
    first = ask(flights, "a", load)
    assert load.began.acquire(timeout=SECONDS)
    others = [ask(flights, "a", load) for _ in range(10)]

    load.let_go.release(2)

    assert first.result(SECONDS) == 1
    assert [other.result(SECONDS) for other in others] == [2] * 10
    assert load.count == 2
    assert not flights._newest


def test_reads_of_other_keys_do_not_wait(ask):
    flights: SingleFlight[str, int] = SingleFlight()
    slow = SlowRead()
    first = ask(flights, "a", slow)
    assert ask(flights, "b", lambda: 7).result(SECONDS) == 7
    slow.let_go.release()
    assert first.result(SECONDS) == 1


def test_a_failed_read_fails_for_those_who_share_it_and_for_no_one_else(ask):
    flights: SingleFlight[str, int] = SingleFlight()
    slow = SlowRead()

    def fail() -> int:
        raise LookupError

    first = ask(flights, "a", slow)
    assert slow.began.acquire(timeout=SECONDS)
    others = [ask(flights, "a", fail) for _ in range(2)]
    slow.let_go.release()

    assert first.result(SECONDS) == 1
    for other in others:
        with pytest.raises(LookupError):
            other.result(SECONDS)
    assert ask(flights, "a", lambda: 3).result(SECONDS) == 3


@pytest.mark.django_db
def test_a_transaction_reads_for_itself(ask):
    flights: SingleFlight[str, int] = SingleFlight()
    slow = SlowRead()
    first = ask(flights, "a", slow)
    with transaction.atomic():
        assert flights.read("a", lambda: 7) == 7
    slow.let_go.release()
    assert first.result(SECONDS) == 1
