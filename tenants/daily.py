"""What was used and spent on each day of a span, the empty days too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum
from django.db.models.functions import TruncDate

from tenants.models import CreditEntry
from tenants.usage import Span, report


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day by UTC. `cost` is that of models; sandboxes are charged beside it."""

    date: date
    calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    sandbox: Decimal = Decimal(0)

    @property
    def spent(self) -> Decimal:
        return self.cost + self.sandbox


def daily(workspace_id: UUID, span: Span) -> list[Day]:
    """Every day of the span in order. Two queries, however long it is."""
    used = {line.key: line for line in report(workspace_id, "day", span)}
    sandboxes = _sandboxes(workspace_id, span)
    days = []
    for count in range((span.last - span.first).days + 1):
        day = span.first + timedelta(days=count)
        line, sandbox = used.get(day.isoformat()), sandboxes.get(day, Decimal(0))
        days.append(
            Day(
                date=day,
                calls=line.calls,
                tokens=line.input_tokens + line.output_tokens,
                cost=line.cost,
                sandbox=sandbox,
            )
            if line
            else Day(date=day, sandbox=sandbox)
        )
    return days


def _sandboxes(workspace_id: UUID, span: Span) -> dict[date, Decimal]:
    begin, end = span.moments
    rows = (
        CreditEntry.objects.for_workspace(workspace_id)
        .filter(kind=CreditEntry.Kind.SANDBOX, created_at__gte=begin, created_at__lt=end)
        .order_by()
        .annotate(day=TruncDate("created_at", tzinfo=UTC))
        .values_list("day")
        .annotate(taken=Sum("amount"))
    )
    return {day: -taken for day, taken in rows}
