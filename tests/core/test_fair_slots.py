"""Tests that slots are limited, shared fairly and given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from core.exceptions import TooManyRequests
from core.fair_slots import FairSlots

LONG = 60


def wait_until(count: Callable[[], int], expected: int) -> None:
    while count() != expected:
        time.sleep(0.01)


def test_no_holder_gets_more_than_its_share():
    slots = FairSlots(each=lambda: 2, total=lambda: 3)

    assert [slots.take("a") for _ in range(3)] == [True, True, False]
    assert [slots.take("b") for _ in range(2)] == [True, False]

    slots.give_back("a")
    assert slots.take("b")


def test_a_free_slot_goes_to_the_holder_that_has_the_fewest():
    slots = FairSlots(each=lambda: 2, total=lambda: 2)
    got: list[str] = []

    def take(holder: str) -> None:
        assert slots.take(holder, seconds=LONG)
        got.append(holder)

    slots.take("greedy")
    slots.take("greedy")
    threads = []
    for number, holder in enumerate(("greedy", "greedy", "modest"), start=1):
        threads.append(threading.Thread(target=take, args=(holder,)))
        threads[-1].start()
        wait_until(lambda: len(slots._waiting), number)
    for number in (1, 2, 3):
        slots.give_back("greedy" if number < 3 else "modest")
        wait_until(lambda: len(got), number)

    assert got == ["modest", "greedy", "greedy"]


def test_a_holder_that_waited_in_vain_leaves_nothing_behind():
    slots = FairSlots(each=lambda: 1)
    slots.take("a")

    assert not slots.take("a", seconds=0.01)
    slots.give_back("a")
    assert slots.take("a")
    assert not slots._waiting


def fail(slots: FairSlots) -> None:
    with slots.hold("a", seconds=0, refusal="Busy."):
        assert slots.is_full("a")
        raise ZeroDivisionError


def test_a_held_slot_is_given_back_however_the_work_ends():
    slots = FairSlots(each=lambda: 1)
    with pytest.raises(ZeroDivisionError):
        fail(slots)

    assert not slots.is_full("a")


def test_work_without_a_slot_is_refused():
    slots = FairSlots(each=lambda: 1)
    assert slots.take("a")

    with pytest.raises(TooManyRequests, match="Busy"):
        fail(slots)
    assert slots.is_full("a")
