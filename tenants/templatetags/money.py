"""Template filters for amounts, counts and durations."""

from __future__ import annotations

from decimal import Decimal

from django import template

from tenants.billing.spending import dollars as format_dollars

register = template.Library()


@register.filter
def dollars(amount: Decimal) -> str:
    """Format an amount, with the sign before the currency: `-$1.20`."""
    return f"-{format_dollars(-amount)}" if amount < 0 else format_dollars(amount)


@register.filter
def compact(count: int) -> str:
    """Format a count compactly: `812`, `9.4k`, `61k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    unit, size = ("k", 1_000) if count < 999_500 else ("M", 1_000_000)
    value = count / size
    return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"


@register.filter
def milliseconds(value: float | None) -> str:
    """Format a duration with its unit: `8 ms`, `1.2 s`, `2 min 5 s`."""
    if value is None:
        return "-"
    if value < 999.5:
        return f"{value:.0f} ms"
    seconds = value / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
