"""REST: what agents told the caller."""

from __future__ import annotations

from typing import Any

from django_filters import BooleanFilter, FilterSet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from config.faults import Invalid
from tenants.api.base import WorkspaceViewSet
from tenants.api.webhook_serializers import (
    InboxSerializer,
    ReadAllSerializer,
    ReadManySerializer,
    ReadSerializer,
)
from tenants.inbox import find_item, items_of, mark, mark_all
from tenants.models import InboxItem


class InboxFilter(FilterSet):
    unread = BooleanFilter(field_name="is_read", exclude=True, label="Only what is not read yet.")

    class Meta:
        model = InboxItem
        fields = ["kind"]


class InboxViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = InboxItem.objects.all()
    serializer_class = InboxSerializer
    filterset_class = InboxFilter
    # Reading changes nothing for anybody else, so whoever may read may mark.
    verbs = {"partial_update": "read", "read_all": "read", "update_all": "read"}

    def get_queryset(self) -> Any:
        return items_of(self.principal)

    @extend_schema(request=ReadSerializer, responses=InboxSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Mark an item as read, or as unread, for the caller."""
        item = self.get_object()
        asked = ReadSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        mark(self.principal, item, read=asked.validated_data["read"])
        return Response(InboxSerializer(find_item(self.principal, item.pk)).data)

    @extend_schema(
        operation_id="inbox_update_all", request=ReadManySerializer, responses=ReadAllSerializer
    )
    def update_all(self, request: Request) -> Response:
        """Mark these items, or everything, as read for the caller."""
        asked = ReadManySerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        if not asked.validated_data["read"]:
            raise Invalid("Items are marked as unread one by one, at inbox/ID/.")
        return Response({"read": mark_all(self.principal, asked.validated_data.get("ids"))})

    @extend_schema(request=None, responses=ReadAllSerializer)
    @action(detail=False, methods=["post"], url_path="read-all")
    def read_all(self, request: Request) -> Response:
        """Mark everything as read for the caller."""
        return Response({"read": mark_all(self.principal)})
