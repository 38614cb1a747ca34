"""The models the product knows: windows, prices, and what an answer cost. No network.

Prices are US dollars per million tokens, from genai-prices and the overrides below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from agents.providers.base import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo as PricedModel

DEFAULT_WINDOW = 128_000
DEFAULT_MAX_OUTPUT = 8_192
PER_MILLION = Decimal(1_000_000)
#: Tokens that thinking may take beside a short answer, and which share of the window at most.
MOST_THOUGHT, THOUGHT_SHARE = 8_192, 10

#: Whose price list belongs to which provider.
PRICE_LISTS = {"gemini": "google", "openai": "openai"}
#: Models that can hold a conversation and call tools, by the start of their names.
CHAT_PREFIXES = {"gemini": ("gemini-2.5", "gemini-3", "gemini-4"), "openai": ("gpt-", "o3", "o4")}
#: Parts of names that say a model is for something else, or of the past.
OTHER_PURPOSES = (
    "audio", "cyber", "deep-research", "embedding", "gpt-3.5", "gpt-4-", "gpt-4.5", "gpt-oss",
    "image", "instruct", "live", "realtime", "robotics", "rosalind", "search", "transcribe", "tts",
    "vision", ":", ".ft", "-20",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One model. Prices are None when unknown."""

    provider: str
    name: str
    window: int
    max_output: int = DEFAULT_MAX_OUTPUT
    input_price: Decimal | None = None
    output_price: Decimal | None = None


def _free(provider: str, name: str, window: int, max_output: int) -> ModelInfo:
    zero = Decimal(0)
    return ModelInfo(
        provider=provider,
        name=name,
        window=window,
        max_output=max_output,
        input_price=zero,
        output_price=zero,
    )


#: Beats the price list.
OVERRIDES: dict[tuple[str, str], ModelInfo] = {
    ("demo", "demo"): _free("demo", "demo", 32_000, 4_096),
}
#: Windows that the price list leaves out or rounds, by the start of the name.
WINDOWS = {"gemini-2.5": 1_048_576, "gemini-3": 1_048_576, "gemini-4": 1_048_576}
#: The longest answers, by the start of the name; the longest start counts.
MAX_OUTPUTS = {
    "gemini-": 65_536,
    "gpt-4o": 16_384,
    "gpt-4.1": 32_768,
    "gpt-5": 128_000,
    "gpt-6": 128_000,
    "gpt-4": 8_192,
    "o1": 100_000,
    "o3": 100_000,
    "o4": 100_000,
}


@cache
def known_models() -> tuple[ModelInfo, ...]:
    """Models worth offering in a list: the demo first, then each vendor's."""
    listed = {(info.provider, info.name): info for info in OVERRIDES.values()}
    for provider in PRICE_LISTS:
        for priced in _price_list(provider):
            if _is_offered(provider, priced):
                info = _describe(provider, priced.id, priced, DEFAULT_WINDOW)
                listed.setdefault((provider, priced.id), info)
    return tuple(listed.values())


def find_model(provider: str, name: str, *, default_window: int = DEFAULT_WINDOW) -> ModelInfo:
    """What is known of a model. An unknown one gets a cautious window and no price."""
    if override := OVERRIDES.get((provider, name)):
        return override
    return _describe(provider, name, _priced(provider, name), default_window)


def answer_limit(provider: str, model: str, tokens: int) -> int:
    """The limit to ask for when an answer of so many tokens is wanted.

    A model that thinks does so within the same limit, and would else have nothing left to say.
    """
    info = find_model(provider, model)
    return min(info.max_output, tokens + min(MOST_THOUGHT, info.window // THOUGHT_SHARE))


def cost_of(provider: str, model: str, usage: Usage) -> Decimal | None:
    """What an answer cost in US dollars; None when the price is unknown."""
    info = find_model(provider, model)
    if info.input_price is None or info.output_price is None:
        return None
    if (provider, model) in OVERRIDES or not (priced := _priced(provider, model)):
        return (
            info.input_price * usage.input_tokens + info.output_price * usage.output_tokens
        ) / PER_MILLION
    return _listed_cost(provider, model, priced, usage)


def _listed_cost(provider: str, model: str, priced: PricedModel, usage: Usage) -> Decimal:
    """By the price list, which knows cached tokens, tiers and changes of price by date."""
    import genai_prices

    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=min(usage.cached_tokens, usage.input_tokens),
        output_tokens=usage.output_tokens,
    )
    return genai_prices.calc_price(
        counted, priced.id, provider_id=_list_of(provider, model)
    ).total_price


def _list_of(provider: str, model: str) -> str | None:
    # OpenRouter speaks OpenAI's language and names its models `vendor/model`.
    if provider == "openai" and "/" in model:
        return "openrouter"
    return PRICE_LISTS.get(provider)


@lru_cache(maxsize=1024)
def _priced(provider: str, name: str) -> PricedModel | None:
    from genai_prices.data_snapshot import get_snapshot

    if (listed := _list_of(provider, name)) is None:
        return None
    try:
        return get_snapshot().find_provider_model(name.removeprefix("models/"), None, listed, None)[
            1
        ]
    except LookupError:
        return None


def _price_list(provider: str) -> Iterator[PricedModel]:
    from genai_prices.data_snapshot import get_snapshot

    for one in get_snapshot().providers:
        if one.id == PRICE_LISTS[provider]:
            yield from one.models


def _is_offered(provider: str, priced: PricedModel) -> bool:
    return (
        priced.id.startswith(CHAT_PREFIXES[provider])
        and not any(part in priced.id for part in OTHER_PURPOSES)
        and not priced.deprecated
    )


def _describe(
    provider: str, name: str, priced: PricedModel | None, default_window: int
) -> ModelInfo:
    prices = priced.get_prices(datetime.now(tz=UTC)) if priced else None
    bare = name.removeprefix("models/")
    listed_window = priced.context_window if priced else None
    return ModelInfo(
        provider=provider,
        name=name,
        window=_longest_match(WINDOWS, bare) or listed_window or default_window,
        max_output=_longest_match(MAX_OUTPUTS, bare) or DEFAULT_MAX_OUTPUT,
        input_price=_base(prices.input_mtok) if prices else None,
        output_price=_base(prices.output_mtok) if prices else None,
    )


def _base(price: object) -> Decimal | None:
    """The price of the first tier."""
    price = getattr(price, "base", price)
    return price if isinstance(price, Decimal) else None


def _longest_match(table: dict[str, int], name: str) -> int | None:
    found = max((one for one in table if name.startswith(one)), key=len, default=None)
    return table[found] if found else None
