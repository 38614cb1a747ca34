"""Base classes of REST views of rows that belong to a workspace."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import Model
from rest_framework import serializers
from rest_framework.mixins import DestroyModelMixin
from rest_framework.viewsets import GenericViewSet

from core.db import delete_row
from tenants.access import Principal
from tenants.authentication import principal_of
from tenants.models import OwnedQuerySet

UUID_PATTERN = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class WorkspaceViewSet(GenericViewSet):
    """Reads and writes only rows of the acting workspace.

    `verbs = {"create": "build"}` declares which right an action needs. By default reading needs
    `read` and everything else needs `run`.
    """

    lookup_value_regex = UUID_PATTERN

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def get_queryset(self) -> Any:
        rows = cast(OwnedQuerySet, super().get_queryset())
        return rows.for_workspace(self.principal.workspace_id)

    def filter_queryset(self, queryset: Any) -> Any:
        """Filter lists only. An object is found by its id, and filters would cost more than that."""
        return queryset if self.detail else super().filter_queryset(queryset)


class RemoveMixin(DestroyModelMixin):
    """Deletes a row under its lock, as others may be using it at the same moment."""

    def perform_destroy(self, instance: Model) -> None:
        delete_row(instance)


class OwnedRelatedField(serializers.PrimaryKeyRelatedField):
    """Refers to another row of the acting workspace by its id. Other rows do not exist for it."""

    def get_queryset(self) -> Any:
        rows = cast(OwnedQuerySet, super().get_queryset())
        return rows.for_workspace(principal_of(self.context["request"]).workspace_id)
