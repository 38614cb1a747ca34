"""What a call costs a workspace: by its own prices, else by the price list."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from agents.models_catalog import PER_MILLION, cost_of, find_model
from agents.providers.base import ModelRequest, Usage
from agents.providers.estimate import estimate_request
from agents.recent import Recent
from tenants.models import Price, User

Key = tuple[UUID, str, str]
#: A guess of tokens may be too low; the reservation must not be.
MARGIN = Decimal("1.5")
#: The smallest amount that is kept.
CENTS = Decimal("0.00000001")


def _load(key: Key) -> Price | None:
    workspace_id, provider, model = key
    return Price.objects.for_workspace(workspace_id).filter(provider=provider, model=model).first()


_prices: Recent[Key, Price | None] = Recent(_load)


def set_price(
    workspace_id: UUID,
    *,
    provider: str,
    model: str,
    input_price: Decimal,
    output_price: Decimal,
    author: User | None = None,
) -> Price:
    """Say what a model costs this workspace, per million tokens."""
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
    """Back to the price list."""
    price.delete()
    _prices.forget((price.workspace_id, price.provider, price.model))


def price_call(workspace_id: UUID, provider: str, model: str, usage: Usage) -> Decimal:
    """What these tokens cost. An unknown price counts as nothing."""
    if own := _prices.get((workspace_id, provider, model)):
        tokens = own.input_price * usage.input_tokens + own.output_price * usage.output_tokens
        return tokens / PER_MILLION
    return cost_of(provider, model, usage) or Decimal(0)


def worst_case(workspace_id: UUID, provider: str, request: ModelRequest) -> Decimal:
    """The most that this request can cost: all of its input, and the longest answer."""
    longest = request.max_tokens or find_model(provider, request.model).max_output
    answer = Usage(output_tokens=longest)
    price = price_call(workspace_id, provider, request.model, answer)
    asked = Usage(input_tokens=1_000_000)
    if not price and not price_call(workspace_id, provider, request.model, asked):
        return price
    whole = Usage(input_tokens=estimate_request(request), output_tokens=longest)
    return (price_call(workspace_id, provider, request.model, whole) * MARGIN).quantize(CENTS)
