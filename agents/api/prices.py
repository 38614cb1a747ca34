"""REST: what the acting workspace pays for models, where that differs from the price list."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.mixins import DestroyModelMixin, ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.prices import drop_price, set_price
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.api.fields import OwnSerializer
from tenants.models import Price


class PriceSerializer(OwnSerializer):
    """US dollars per million tokens."""

    class Meta:
        model = Price
        fields = [
            "id",
            "provider",
            "model",
            "input_price",
            "output_price",
            "created_by",
            "created_at",
        ]
        read_only_fields = ["created_by"]
        extra_kwargs = {"input_price": {"min_value": 0}, "output_price": {"min_value": 0}}


class PriceViewSet(ListModelMixin, RetrieveModelMixin, DestroyModelMixin, WorkspaceViewSet):
    """Prices that this workspace says itself, for a self-hosted model, say."""

    queryset = Price.objects.all()
    serializer_class = PriceSerializer
    filterset_fields = ["provider", "model"]
    verbs = {"create": "admin", "destroy": "admin"}

    @extend_schema(responses={201: PriceSerializer})
    def create(self, request: Request) -> Response:
        """Say the price of a model. One that is there already is changed."""
        asked = PriceSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        price = set_price(
            authorise(self.principal, "admin"),
            author=self.principal.user,
            **asked.validated_data,
        )
        return Response(PriceSerializer(price).data, status=201)

    def perform_destroy(self, instance: Price) -> None:
        drop_price(instance)
