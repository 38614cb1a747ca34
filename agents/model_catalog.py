"""The known models with their context windows and prices, and the cost of calls.

A workspace's own facts come first, then those that its model servers told. Only `learn_models`
uses the network.

Prices are US dollars per million tokens, from genai-prices and the overrides below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.models import ProviderSettings
from agents.providers.base import ModelFacts, ModelRequest, Usage, estimate_request
from agents.providers.keys import credentials, spends_operators_money
from agents.providers.registry import find_provider, list_models
from core.db import TimedCache, release_connection
from core.exceptions import Invalid
from tenants.models import Price, User

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo as PricedModel

Found = TypeVar("Found")
DEFAULT_WINDOW = 128_000
#: For how many models of a provider a workspace can set facts.
MOST_FACTS = 200
#: Parts of names of models that do not chat, on any server.
NOT_FOR_CHAT = ("embed", "rerank", "whisper", "tts", "moderation", "dall-e")
DEFAULT_MAX_OUTPUT = 8_192
PER_MILLION = Decimal(1_000_000)
#: Tokens allowed for thinking in addition to a short answer, and its largest share of the window.
MAX_THINKING, THINKING_SHARE = 8_192, 10

#: The name of each provider in the price list.
PRICE_LISTS = {"gemini": "google", "openai": "openai", "anthropic": "anthropic"}
#: Models that can chat and call tools, by prefix of the name.
CHAT_PREFIXES = {
    "gemini": ("gemini-2.5", "gemini-3", "gemini-4"),
    "openai": ("gpt-", "o3", "o4"),
    "anthropic": ("claude-fable", "claude-haiku", "claude-opus", "claude-sonnet"),
}
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
    #: Whether it can call tools, and read images, PDFs and sound; None when unknown.
    tools: bool | None = None
    images: bool | None = None
    files: bool | None = None
    audio: bool | None = None

    def takes(self, media_type: str) -> bool:
        """Return whether the model can read a part. One that is not known to can not."""
        if media_type.startswith("image/"):
            return bool(self.images)
        return bool(self.audio if media_type.startswith("audio/") else self.files)


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
    "claude-": 64_000,
    "claude-3": 8_192,
    "claude-3-haiku": 4_096,
    "claude-3-opus": 4_096,
    "claude-opus-4-0": 32_000,
    "claude-opus-4-1": 32_000,
}


#: What the vendors' own models read beside text, by provider and prefix of the name.
SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "gemini": {"gemini-": ("images", "files", "audio")},
    "anthropic": {"claude-": ("images", "files"), "claude-2": (), "claude-3-haiku": ("images",)},
    "openai": {
        "gpt-4o": ("images", "files"),
        "gpt-4.1": ("images", "files"),
        "gpt-5": ("images", "files"),
        "gpt-6": ("images", "files"),
        "o3": ("images", "files"),
        "o4": ("images", "files"),
        "o3-mini": (),
    },
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


def find_model(
    provider: str,
    name: str,
    *,
    workspace_id: UUID | None = None,
    default_window: int = DEFAULT_WINDOW,
) -> ModelInfo:
    """Return a model's facts. An unknown model gets a cautious window and no price.

    What the workspace has set counts first, then what the server told, then the catalog.
    """
    if override := OVERRIDES.get((provider, name)):
        return override
    info = _describe(provider, name, _priced(provider, name), default_window)
    if workspace_id is None:
        return info
    return _with_facts(info, known_facts(workspace_id, provider))


def _with_facts(info: ModelInfo, known: KnownFacts) -> ModelInfo:
    found = known.of(info.name).model_dump(exclude_none=True)
    return replace(info, **found) if found else info


def answer_limit(
    provider: str, model: str, tokens: int, *, workspace_id: UUID | None = None
) -> int:
    """Return the output limit to request for an answer of so many tokens.

    A model that thinks does so within the same limit and would otherwise have no tokens left.
    """
    info = find_model(provider, model, workspace_id=workspace_id)
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
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
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
        **dict.fromkeys(_longest_match(SENSES.get(provider, {}), bare) or (), True),
    )


def _base(price: object) -> Decimal | None:
    """Return the price of the first tier."""
    price = getattr(price, "base", price)
    return price if isinstance(price, Decimal) else None


def _longest_match(table: Mapping[str, Found], name: str) -> Found | None:
    found = max((prefix for prefix in table if name.startswith(prefix)), key=len, default=None)
    return table[found] if found else None


# ── What a workspace knows of its models ─────────────────────────────────────────────────────────

#: The name under which facts of every model of a server are set.
EVERY_MODEL = ""


@dataclass(frozen=True, kw_only=True)
class KnownFacts:
    """The facts of a provider's models, by name: those that members set, and those it told."""

    set: dict[str, ModelFacts] = field(default_factory=dict)
    told: dict[str, ModelFacts] = field(default_factory=dict)

    def of(self, model: str) -> ModelFacts:
        """Return what is set for this model, for all models, and what the server told."""
        own, every = self.set.get(model, ModelFacts()), self.set.get(EVERY_MODEL, ModelFacts())
        return own.or_else(every).or_else(self.told.get(model, ModelFacts()))


def _load_facts(workspace_id: UUID) -> dict[str, KnownFacts]:
    rows = ProviderSettings.objects.for_workspace(workspace_id)
    return {
        row.provider: KnownFacts(set=_parsed(row.facts), told=_parsed(row.listed)) for row in rows
    }


def _parsed(stored: dict[str, Any]) -> dict[str, ModelFacts]:
    return {name: ModelFacts.model_validate(facts) for name, facts in stored.items()}


_facts: TimedCache[UUID, dict[str, KnownFacts]] = TimedCache(_load_facts)


def known_facts(workspace_id: UUID, provider: str) -> KnownFacts:
    """Return what is set and told of a provider's models, usually without a query."""
    if not find_provider(provider).needs_key:
        return KnownFacts()
    return _facts.get(workspace_id).get(provider, KnownFacts())


def listed_models(workspace_id: UUID) -> dict[str, str]:
    """Return the provider of each model that the servers of this workspace list."""
    known = _facts.get(workspace_id)
    return {name: provider for provider, facts in known.items() for name in facts.told}


def facts_of(workspace_id: UUID, provider: str, model: str) -> ModelFacts:
    """Return what the workspace has set for this model, for all models, and what the server told."""
    return known_facts(workspace_id, provider).of(model)


@transaction.atomic
def set_facts(
    workspace_id: UUID, provider: str, model: str, facts: ModelFacts, *, by: User | None = None
) -> None:
    """Set what the workspace knows of a model, or of every model of the server. Nothing removes it."""
    row = lock_settings(workspace_id, provider, by)
    row.facts.pop(model, None)
    if told := facts.model_dump(mode="json", exclude_none=True):
        row.facts[model] = told
    if len(row.facts) > MOST_FACTS:
        raise Invalid(f"At most {MOST_FACTS} models can have settings.")
    row.save(update_fields=["facts"])
    _facts.forget(workspace_id)


def lock_settings(workspace_id: UUID, provider: str, by: User | None = None) -> ProviderSettings:
    """Return the settings of a provider, locked until the transaction ends."""
    rows = ProviderSettings.objects.select_for_update()
    row, _ = rows.get_or_create(
        workspace_id=workspace_id, provider=provider, defaults={"created_by": by}
    )
    return row


def learn_models(workspace_id: UUID, provider: str) -> dict[str, ModelFacts]:
    """Ask the server for its models, and keep what it tells. Raise a fault if it does not answer."""
    found = credentials(workspace_id, provider)
    # The server may be slow, and other threads need the database connection meanwhile.
    release_connection()
    listed = list_models(provider, found.api_key, found.base_url, http_client=found.http_client)
    with transaction.atomic():
        row = lock_settings(workspace_id, provider)
        stored = {
            name: facts.model_dump(mode="json", exclude_none=True) for name, facts in listed.items()
        }
        row.listed, row.listed_at = stored, timezone.now()
        row.save(update_fields=["listed", "listed_at"])
    _facts.forget(workspace_id)
    return listed


def offered_models(
    workspace_id: UUID, provider: str, *, own_server: bool = False
) -> list[ModelInfo]:
    """Return the models of a provider to choose from: those that its server lists, if it was asked.

    A vendor lists hundreds of models for other purposes, so of those only the known ones count.
    """
    facts = known_facts(workspace_id, provider)
    told = facts.told
    names = [name for name in told if not any(part in name for part in NOT_FOR_CHAT)]
    if not own_server:
        known = [model.name for model in known_models() if model.provider == provider]
        names = [name for name in known if name in told] or names or known
    return [_with_facts(find_model(provider, name), facts) for name in sorted(names)]


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
    """Return what these tokens cost. An unknown price counts as zero.

    A workspace of tenants cannot lower the price of calls that the operator pays.
    """
    own = _prices.get((workspace_id, provider, model)) or facts_of(workspace_id, provider, model)
    if own.input_price is None or own.output_price is None:
        return cost_of(provider, model, usage) or Decimal(0)
    if spends_operators_money(workspace_id, provider):
        return cost_of(provider, model, usage) or Decimal(0)
    tokens = own.input_price * usage.input_tokens + own.output_price * usage.output_tokens
    return tokens / PER_MILLION


def worst_case(workspace_id: UUID, provider: str, request: ModelRequest) -> Decimal:
    """Return the most that this request can cost: all of its input and the longest answer."""
    info = find_model(provider, request.model, workspace_id=workspace_id)
    longest = request.max_tokens or info.max_output
    answer = Usage(output_tokens=longest)
    price = price_call(workspace_id, provider, request.model, answer)
    asked = Usage(input_tokens=1_000_000)
    if not price and not price_call(workspace_id, provider, request.model, asked):
        return price
    whole = Usage(input_tokens=estimate_request(request), output_tokens=longest)
    return (price_call(workspace_id, provider, request.model, whole) * MARGIN).quantize(PRECISION)
