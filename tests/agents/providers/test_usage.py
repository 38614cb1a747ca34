"""Tests of token counts that a model server reports wrongly, by mistake or on purpose."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from agents.model_catalog import cost_of
from agents.providers.base import MOST_TOKENS, Usage
from agents.providers.registry import build_provider
from tests.agents.providers.talk import OPENAI_MODEL, complete, request
from tests.wire.answers import Answer, Counts
from tests.wire.openai import OpenAIWire


@pytest.mark.parametrize(
    ("reported", "counted"),
    [
        (7, 7),
        (7.9, 7),
        (True, 1),
        (-1, 0),
        (-(10**30), 0),
        (10**30, MOST_TOKENS),
        (math.inf, MOST_TOKENS),
        (-math.inf, 0),
        (math.nan, 0),
        ("12", 0),
        (None, 0),
        ([5], 0),
    ],
)
@pytest.mark.parametrize(
    "name", ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
)
def test_an_impossible_count_becomes_a_possible_one(name: str, reported: Any, counted: int):
    others = {"input_tokens": MOST_TOKENS}  # no fewer than the cached ones among them
    assert getattr(Usage(**others | {name: reported}), name) == counted


def test_no_more_tokens_are_cached_than_were_sent():
    usage = Usage(input_tokens=5, cache_read_tokens=3, cache_write_tokens=9)

    assert Usage(input_tokens=5, cache_read_tokens=9).cache_read_tokens == 5
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (3, 2)


def test_a_negative_count_does_not_lower_the_cost_of_the_others():
    honest = cost_of("openai", "gpt-4o", Usage(output_tokens=1_000))
    cheating = Usage(input_tokens=-(10**9), output_tokens=1_000, cache_read_tokens=-5)

    assert honest
    assert honest > 0
    assert cost_of("openai", "gpt-4o", cheating) == honest
    assert cost_of("openai", "gpt-4o", Usage(input_tokens=-5, output_tokens=-5)) == Decimal(0)


def test_negative_counts_of_a_server_are_not_believed():
    counts = Counts(input_tokens=-1_000_000, output_tokens=-7, cached_tokens=-9)
    with OpenAIWire([Answer(text=("hello",), counts=counts)]) as wire:
        provider = build_provider("openai", api_key=wire.key, base_url=wire.url, timeout=10)
        answer = complete(provider, request("hi", model=OPENAI_MODEL))

    assert answer.usage == Usage()
