"""Tests of when a part is restarted and what the operator is told."""

from __future__ import annotations

from core.exceptions import CannotStart
from orchestrator.launcher.parts import Keeper


class Fragile:
    """A part that the test can kill and break."""

    name = "fragile"

    def __init__(self) -> None:
        self.alive = False
        self.starts = 0
        self.broken = False

    def start(self) -> None:
        if self.broken:
            raise CannotStart("no room")
        self.alive = True
        self.starts += 1

    def is_alive(self) -> bool:
        return self.alive

    def cause(self) -> str:
        return "died"


def kept() -> tuple[Fragile, Keeper, list[str]]:
    part, said = Fragile(), list[str]()
    keeper = Keeper(part, say=said.append)
    keeper.start(0.0)
    return part, keeper, said


def die_and_restart(part: Fragile, keeper: Keeper, *, at: float) -> float:
    """Kill the part, check until it runs again, and return how long that took."""
    part.alive, starts, now = False, part.starts, at
    while part.starts == starts:
        keeper.check(now)
        now += 0.5
    return now - 0.5 - at


def test_a_part_that_keeps_dying_is_restarted_with_growing_delays() -> None:
    part, keeper, said = kept()
    now, waits = 1.0, []

    for _ in range(8):
        waits.append(die_and_restart(part, keeper, at=now))
        now += waits[-1] + 1

    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert said[0] == "fragile: died; restarting in 0.5 s."
    assert len(said) == 8


def test_a_part_that_ran_well_for_a_while_is_restarted_without_a_long_delay() -> None:
    part, keeper, _ = kept()
    for death in (1.0, 10.0, 20.0):
        die_and_restart(part, keeper, at=death)

    assert die_and_restart(part, keeper, at=200.0) == 0.5


def test_a_part_that_cannot_start_is_tried_again() -> None:
    part, keeper, said = kept()
    part.alive, part.broken = False, True

    keeper.check(1.0)
    keeper.check(1.5)
    part.broken = False
    keeper.check(2.5)

    assert part.alive
    assert "does not start: no room" in said[-1]


def test_a_living_part_is_left_alone() -> None:
    part, keeper, said = kept()

    for now in range(100):
        keeper.check(float(now))

    assert (part.starts, said) == (1, [])
