"""Tests that ids sort by their creation time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from core.ids import made_at, uuid7


def test_an_id_is_a_uuid7_that_starts_with_the_time():
    before = time.time_ns() // 1_000_000
    made = uuid7()

    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_of_one_thread_are_in_order():
    made = [uuid7() for _ in range(5000)]

    assert made == sorted(set(made))


def test_ids_of_many_threads_are_different():
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: uuid7(), range(5000)))

    assert len(set(made)) == 5000


def test_the_creation_time_can_be_read_from_an_id():
    before = datetime.now(UTC)
    made = made_at(uuid7())

    assert before - timedelta(milliseconds=1) <= made <= datetime.now(UTC)
