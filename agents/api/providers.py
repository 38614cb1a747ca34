"""REST views of model providers, their keys, models and prices."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.mixins import DestroyModelMixin, ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.definitions import default_model
from agents.model_catalog import drop_price, known_models, set_price
from agents.providers.keys import Source, check, delete_key, save_key, statuses
from agents.providers.registry import PROVIDERS
from core.exceptions import NotFound
from core.pagination import whole_page, whole_page_of
from core.rest import OwnSerializer, StrictJSONParser, TextField, validate_body
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of, required_verb
from tenants.models import Price


class ProviderSerializer(serializers.Serializer):
    """A provider, and whose key this workspace uses. The key itself is never returned."""

    name = serializers.CharField(source="provider")
    title = serializers.CharField(source="label")
    needs_key = serializers.BooleanField()
    configured = serializers.BooleanField()
    key_source = serializers.ChoiceField(
        source="source", choices=[one.value for one in Source], help_text="Whose key it is."
    )
    hint = serializers.CharField(source="key.hint", default="", help_text="The end of the key.")
    base_url = serializers.CharField(
        source="key.base_url", default="", help_text="Empty for the vendor's or the operator's own."
    )
    checked_at = serializers.DateTimeField(source="key.checked_at", default=None, allow_null=True)
    check_error = serializers.CharField(source="key.check_error", default="")
    created_by = serializers.UUIDField(source="key.created_by_id", default=None, allow_null=True)
    created_at = serializers.DateTimeField(source="key.created_at", default=None, allow_null=True)


class ProviderKeySerializer(serializers.Serializer):
    """A key and an address, which are replaced together."""

    api_key = TextField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=4_096,
        help_text="Required, except for a server of your own that needs none.",
    )
    base_url = TextField(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=200,
        help_text="The address of another server with the provider's API.",
    )


class ProviderTestSerializer(serializers.Serializer):
    model = TextField(
        required=False,
        allow_blank=True,
        max_length=120,
        help_text="Also check that this model can be used.",
    )


class CheckSerializer(serializers.Serializer):
    ok = serializers.BooleanField()
    error = serializers.CharField(allow_blank=True)
    checked_at = serializers.DateTimeField()


class ModelSerializer(serializers.Serializer):
    """A known model. Other names are passed on to the provider as they are."""

    provider = serializers.CharField()
    name = serializers.CharField()
    window = serializers.IntegerField(help_text="The context window, in tokens.")
    max_output = serializers.IntegerField(help_text="The longest answer, in tokens.")
    input_price = serializers.DecimalField(
        max_digits=12,
        decimal_places=6,
        allow_null=True,
        help_text="US dollars per million tokens; null when unknown.",
    )
    output_price = serializers.DecimalField(max_digits=12, decimal_places=6, allow_null=True)
    usable = serializers.BooleanField(help_text="Whether this workspace has a key for it.")
    default = serializers.BooleanField(help_text="Whether new agents use it.")


class ProviderBaseView(APIView):
    """Checks permissions first, then the provider's name."""

    parser_classes = [StrictJSONParser]

    def workspace_id(self, name: str) -> UUID:
        workspace_id = authorise(principal_of(self.request), required_verb(self.request, self))
        if name not in PROVIDERS:
            raise NotFound(f"No model provider is named {name[:80]!r}.")
        return workspace_id


class ProviderListView(APIView):
    @extend_schema(operation_id="providers_list", responses=whole_page_of(ProviderSerializer))
    def get(self, request: Request) -> Response:
        """List all providers, and whether this workspace can use them."""
        workspace_id = authorise(principal_of(request), "read")
        found = statuses(workspace_id).values()
        return whole_page(ProviderSerializer(list(found), many=True).data)


class ProviderView(ProviderBaseView):
    verbs = {"GET": "read", "PUT": "admin", "DELETE": "admin"}

    @extend_schema(operation_id="providers_retrieve", responses=ProviderSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Return one provider, and whether this workspace can use it."""
        return Response(ProviderSerializer(statuses(self.workspace_id(name))[name]).data)

    @extend_schema(
        operation_id="providers_update",
        request=ProviderKeySerializer,
        responses=ProviderSerializer,
    )
    def put(self, request: Request, name: str) -> Response:
        """Set or replace the workspace's key. It can be used from now on, and never read."""
        workspace_id = self.workspace_id(name)
        body = validate_body(request, ProviderKeySerializer)
        by = principal_of(request).user
        save_key(workspace_id=workspace_id, provider=name, by=by, **body)
        return Response(ProviderSerializer(statuses(workspace_id)[name]).data)

    @extend_schema(operation_id="providers_destroy", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Delete the workspace's key. The operator's key, if there is one, counts again."""
        delete_key(workspace_id=self.workspace_id(name), provider=name)
        return Response(status=204)


class ProviderTestView(ProviderBaseView):
    verbs = {"POST": "admin"}

    @extend_schema(
        operation_id="providers_test",
        request=ProviderTestSerializer,
        responses={200: CheckSerializer, 409: OpenApiResponse(description="There is no key.")},
    )
    def post(self, request: Request, name: str) -> Response:
        """Make one cheap call to the provider, and report whether it worked."""
        workspace_id = self.workspace_id(name)
        body = validate_body(request, ProviderTestSerializer)
        result = check(workspace_id=workspace_id, provider=name, **body)
        return Response(CheckSerializer(result).data)


class ModelListView(APIView):
    @extend_schema(operation_id="models_list", responses=whole_page_of(ModelSerializer))
    def get(self, request: Request) -> Response:
        """List the known models with windows and prices, and whether they can be used now."""
        workspace_id = authorise(principal_of(request), "read")
        found, choice = statuses(workspace_id), default_model(workspace_id)
        listed = [
            {
                **asdict(model),
                "usable": found[model.provider].configured,
                "default": (model.provider, model.name) == (choice.provider, choice.model),
            }
            for model in known_models()
        ]
        return whole_page(ModelSerializer(listed, many=True).data)


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
    """Prices that this workspace sets itself, for a self-hosted model, for example."""

    queryset = Price.objects.all()
    serializer_class = PriceSerializer
    filterset_fields = ["provider", "model"]
    verbs = {"create": "admin", "destroy": "admin"}

    @extend_schema(responses={201: PriceSerializer})
    def create(self, request: Request) -> Response:
        """Set the price of a model, replacing one that is set already."""
        given = validate_body(request, PriceSerializer)
        workspace_id = authorise(self.principal, "admin")
        price = set_price(workspace_id, author=self.principal.user, **given)
        return Response(PriceSerializer(price).data, status=201)

    def perform_destroy(self, instance: Price) -> None:
        drop_price(instance)
