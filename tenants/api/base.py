"""What every REST view of owned rows extends, so that none can forget whose they are."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import Model
from rest_framework import serializers
from rest_framework.mixins import DestroyModelMixin
from rest_framework.viewsets import GenericViewSet

from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tenants.models import OwnedQuerySet
from tenants.permissions import verb_of
from tenants.rows import remove

UUID_PATTERN = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class WorkspaceViewSet(GenericViewSet):
    """Sees only the acting workspace's rows, and writes only into it.

    `verbs = {"create": "build"}` says which right an action needs; reading needs `read` and
    everything else `run` unless it does.
    """

    lookup_value_regex = UUID_PATTERN

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def get_queryset(self) -> Any:
        rows = cast(OwnedQuerySet, super().get_queryset())
        return rows.for_workspace(self.principal.workspace_id)

    def perform_create(self, serializer: serializers.BaseSerializer) -> None:
        workspace_id = authorise(self.principal, verb_of(self.request, self))
        serializer.save(workspace_id=workspace_id, created_by=self.principal.user)


class RemoveMixin(DestroyModelMixin):
    """Deletes a row that others may be using at the same moment."""

    def perform_destroy(self, instance: Model) -> None:
        remove(instance)


class OwnedRelatedField(serializers.PrimaryKeyRelatedField):
    """Names another row by its id. A row of another workspace is as absent as a missing one."""

    def get_queryset(self) -> Any:
        rows = cast(OwnedQuerySet, super().get_queryset())
        return rows.for_workspace(principal_of(self.context["request"]).workspace_id)
