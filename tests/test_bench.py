"""Tests of how `bench/compare.py` decides that a tree became slower."""

from __future__ import annotations

import random

import pytest

from bench.compare import Comparison, surely_above


def compared(ratios: list[float]) -> Comparison:
    comparison = Comparison(today=None, base=None)
    comparison.pairs["turn"] = [(ratio, 1.0) for ratio in ratios]
    return comparison


def test_a_tree_that_is_a_quarter_slower_fails():
    chance = random.Random(1)

    assert compared([chance.gauss(1.25, 0.1) for _ in range(60)]).slower() == ["turn"]


def test_a_tree_that_is_a_little_slower_passes():
    chance = random.Random(1)

    assert compared([chance.gauss(1.08, 0.1) for _ in range(60)]).slower() == []


def test_noise_that_hides_the_median_does_not_fail_a_tree():
    ratios = [0.5] * 28 + [2.0] * 32

    assert compared(ratios).slower() == []


def test_noise_alone_fails_hardly_any_sitting():
    chance = random.Random(1)
    sittings = [compared([chance.lognormvariate(0, 0.8) for _ in range(60)]) for _ in range(1_000)]

    assert sum(bool(sitting.slower()) for sitting in sittings) <= 15


@pytest.mark.parametrize(("count", "place"), [(3, 0), (10, 0), (11, 1), (60, 20), (100, 37)])
def test_the_bound_is_the_value_that_a_sign_test_of_one_percent_gives(count, place):
    assert surely_above([float(nth) for nth in range(count)]) == place
