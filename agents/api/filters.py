"""Narrows lists of rows that belong to an agent: by its id, or by its exact name."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from agents.models import Agent
from config.faults import Invalid
from tenants.authentication import principal_of


class AgentFilter(filters.CharFilter):
    """`?agent=`, wherever an agent may be named by either."""

    def __init__(self, field_name: str = "agent", **words: Any) -> None:
        words.setdefault("label", "The id or the exact name of an agent.")
        super().__init__(field_name, **words)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return qs.filter(**{f"{self.field_name}_id__in": self._named(value)}) if value else qs

    def _named(self, value: str) -> list[UUID]:
        try:
            return [UUID(value)]
        except ValueError:
            here = Agent.objects.for_workspace(principal_of(self.parent.request).workspace_id)
            found = list(here.filter(current__name=value).values_list("pk", flat=True))
        if not found:
            raise Invalid(f"agent: There is no agent {value[:80]!r} here.")
        return found
