"""The known models with their context windows and prices, and the cost of calls. No network.

Prices are US dollars per million tokens, from genai-prices and the overrides below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from agents.providers.base import ModelRequest, Usage, estimate_request
from core.db import TimedCache
from tenants.models import Price, User

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo as PricedModel

DEFAULT_WINDOW = 128_000
DEFAULT_MAX_OUTPUT = 8_192
PER_MILLION = Decimal(1_000_000)
#: Tokens allowed for thinking in addition to a short answer, and its largest share of the window.
MAX_THINKING, THINKING_SHARE = 8_192, 10

#: The name of each provider in the price list.
PRICE_LISTS = {"gemini": "google", "openai": "openai"}
#: Models that can chat and call tools, by prefix of the name.
CHAT_PREFIXES = {"gemini": ("gemini-2.5", "gemini-3", "gemini-4"), "openai": ("gpt-", "o3", "o4")}
#: Parts of names that mark models for other purposes, or obsolete ones.
OTHER_PURPOSES = (
    "audio", "cyber", "deep-research", "embedding", "gpt-3.5", "gpt-4-", "gpt-4.5", "gpt-oss",
    "image", "instruct", "live", "realtime", "robotics", "rosalind", "search", "transcribe", "tts",
    "vision", ":", ".ft", "-20",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A model. Prices are None when unknown."""

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


#: Takes precedence over the price list.
OVERRIDES: dict[tuple[str, str], ModelInfo] = {
    ("demo", "demo"): _free("demo", "demo", 32_000, 4_096),
}
#: Context windows that the price list omits or rounds, by prefix of the name.
WINDOWS = {"gemini-2.5": 1_048_576, "gemini-3": 1_048_576, "gemini-4": 1_048_576}
#: The longest answers, by prefix of the name; the longest prefix counts.
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
    """Return the models to offer in a list: the demo first, then each vendor's."""
    listed = {(info.provider, info.name): info for info in OVERRIDES.values()}
    for provider in PRICE_LISTS:
        for priced in _price_list(provider):
            if _is_offered(provider, priced):
                info = _describe(provider, priced.id, priced, DEFAULT_WINDOW)
                listed.setdefault((provider, priced.id), info)
    return tuple(listed.values())


def find_model(provider: str, name: str, *, default_window: int = DEFAULT_WINDOW) -> ModelInfo:
    """Return a model's facts. An unknown model gets a cautious window and no price."""
    if override := OVERRIDES.get((provider, name)):
        return override
    return _describe(provider, name, _priced(provider, name), default_window)


def answer_limit(provider: str, model: str, tokens: int) -> int:
    """Return the output limit to request for an answer of so many tokens.

    A model that thinks does so within the same limit and would otherwise have no tokens left.
    """
    info = find_model(provider, model)
    return min(info.max_output, tokens + min(MAX_THINKING, info.window // THINKING_SHARE))


def cost_of(provider: str, model: str, usage: Usage) -> Decimal | None:
    """Return the cost of an answer in US dollars, or None when the price is unknown."""
    info = find_model(provider, model)
    if info.input_price is None or info.output_price is None:
        return None
    if (provider, model) in OVERRIDES or not (priced := _priced(provider, model)):
        return (
            info.input_price * usage.input_tokens + info.output_price * usage.output_tokens
        ) / PER_MILLION
    return _listed_cost(provider, model, priced, usage)


def _listed_cost(provider: str, model: str, priced: PricedModel, usage: Usage) -> Decimal:
    """Return the cost by the price list, which knows cached tokens, tiers and changes by date."""
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
    # OpenRouter uses OpenAI's protocol and names its models `vendor/model`.
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

    for listed in get_snapshot().providers:
        if listed.id == PRICE_LISTS[provider]:
            yield from listed.models


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
    """Return the price of the first tier."""
    price = getattr(price, "base", price)
    return price if isinstance(price, Decimal) else None


def _longest_match(table: dict[str, int], name: str) -> int | None:
    found = max((prefix for prefix in table if name.startswith(prefix)), key=len, default=None)
    return table[found] if found else None


Key = tuple[UUID, str, str]
#: Estimates of tokens may be too low; a reservation must not be.
MARGIN = Decimal("1.5")
#: The precision of stored amounts.
PRECISION = Decimal("0.00000001")


def _load(key: Key) -> Price | None:
    workspace_id, provider, model = key
    return Price.objects.for_workspace(workspace_id).filter(provider=provider, model=model).first()


_prices: TimedCache[Key, Price | None] = TimedCache(_load)


def set_price(
    workspace_id: UUID,
    *,
    provider: str,
    model: str,
    input_price: Decimal,
    output_price: Decimal,
    author: User | None = None,
) -> Price:
    """Set what a model costs this workspace, per million tokens."""
    price, _ = Price.objects.update_or_create(
        workspace_id=workspace_id,
        provider=provider,
        model=model,
        defaults={"input_price": input_price, "output_price": output_price},
        create_defaults={
            "input_price": input_price,
            "output_price": output_price,
            "created_by": author,
        },
    )
    _prices.forget((workspace_id, provider, model))
    return price


def drop_price(price: Price) -> None:
    """Delete a workspace's own price, so that the price list counts again."""
    price.delete()
    _prices.forget((price.workspace_id, price.provider, price.model))


def price_call(workspace_id: UUID, provider: str, model: str, usage: Usage) -> Decimal:
    """Return what these tokens cost. An unknown price counts as zero."""
    if own := _prices.get((workspace_id, provider, model)):
        tokens = own.input_price * usage.input_tokens + own.output_price * usage.output_tokens
        return tokens / PER_MILLION
    return cost_of(provider, model, usage) or Decimal(0)


def worst_case(workspace_id: UUID, provider: str, request: ModelRequest) -> Decimal:
    """Return the most that this request can cost: all of its input and the longest answer."""
    longest = request.max_tokens or find_model(provider, request.model).max_output
    answer = Usage(output_tokens=longest)
    price = price_call(workspace_id, provider, request.model, answer)
    asked = Usage(input_tokens=1_000_000)
    if not price and not price_call(workspace_id, provider, request.model, asked):
        return price
    whole = Usage(input_tokens=estimate_request(request), output_tokens=longest)
    return (price_call(workspace_id, provider, request.model, whole) * MARGIN).quantize(PRECISION)
