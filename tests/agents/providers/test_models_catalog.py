"""Tests of the catalog of models with windows and prices."""

from __future__ import annotations

import socket
from decimal import Decimal

import pytest

from agents.model_catalog import DEFAULT_WINDOW, answer_limit, cost_of, find_model, known_models
from agents.providers.base import Usage
from agents.providers.registry import PROVIDERS

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


def test_every_listed_model_can_be_found_and_belongs_to_a_provider():
    for info in known_models():
        assert find_model(info.provider, info.name) == info
        assert info.provider in PROVIDERS
        assert info.window > 0


def test_the_list_names_each_model_once_and_all_providers():
    names = [(info.provider, info.name) for info in known_models()]

    assert len(set(names)) == len(names)
    assert {provider for provider, _ in names} == set(PROVIDERS)
    assert not any("tts" in name or "image" in name or "embedding" in name for _, name in names)


def test_the_demo_model_is_small_and_free():
    info = find_model("demo", "demo")

    assert info.window == 32_000
    assert info.input_price == info.output_price == 0
    assert cost_of("demo", "demo", MILLION) == 0


def test_an_unknown_model_gets_a_cautious_window_and_no_price():
    info = find_model("openai", "my-own-llama")

    assert info.window == DEFAULT_WINDOW
    assert find_model("openai", "my-own-llama", default_window=4_096).window == 4_096
    assert info.input_price is None
    assert cost_of("openai", "my-own-llama", MILLION) is None
    assert cost_of("no-such-provider", "x", MILLION) is None


def test_the_cost_follows_the_price_list():
    usage = Usage(input_tokens=1_000, output_tokens=100)

    assert cost_of("openai", "gpt-4o", usage) == Decimal("0.0035")
    assert cost_of("gemini", "gemini-2.5-flash", usage) == Decimal("0.00055")


def test_a_dated_or_prefixed_name_is_the_same_model():
    assert find_model("openai", "gpt-4o-2024-08-06").window == find_model("openai", "gpt-4o").window
    assert find_model("gemini", "models/gemini-2.5-pro").window == 1_048_576


def test_cached_tokens_cost_less():
    full = cost_of("openai", "gpt-4o", Usage(input_tokens=10_000))
    cached = cost_of("openai", "gpt-4o", Usage(input_tokens=10_000, cache_read_tokens=9_000))

    assert full is not None
    assert cached is not None
    assert 0 < cached < full


def test_more_cached_than_input_tokens_still_give_a_positive_cost():
    cost = cost_of("openai", "gpt-4o", Usage(input_tokens=10, cache_read_tokens=50))

    assert cost is not None
    assert cost > 0


def test_models_behind_openrouter_have_prices():
    assert cost_of("openai", "anthropic/claude-sonnet-4.5", MILLION)


def test_reading_from_a_cache_costs_less_and_writing_to_it_more():
    def cost(**cached: int) -> Decimal:
        usage = Usage(input_tokens=10_000, **cached)
        return cost_of("anthropic", "claude-sonnet-5-5", usage) or Decimal(0)

    assert 0 < cost(cache_read_tokens=9_000) < cost() < cost(cache_write_tokens=9_000)


def test_the_models_of_anthropic_have_windows_and_limits():
    info = find_model("anthropic", "claude-opus-4-6")

    assert (info.window, info.max_output) == (1_000_000, 64_000)
    assert find_model("anthropic", "claude-3-5-haiku-latest").max_output == 8_192


def test_the_answer_limit_includes_room_for_thinking():
    assert answer_limit("gemini", "gemini-2.5-flash", 600) >= 8_000
    # Never more than the model's longest answer, nor a large part of a small window.
    assert answer_limit("openai", "gpt-4", 8_000) == 8_192
    assert answer_limit("demo", "demo", 600) == 600 + 3_200


def test_no_network_is_used(monkeypatch):
    def refuse(*arguments: object) -> None:
        pytest.fail("the catalog opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    known_models.cache_clear()

    assert known_models()
    assert cost_of("openai", "gpt-4o-mini", MILLION)
