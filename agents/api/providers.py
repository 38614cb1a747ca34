"""REST views of model providers, their keys, models and prices."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.mixins import DestroyModelMixin, ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.definitions import Choice, default_model, use_for_all_agents
from agents.model_catalog import (
    drop_price,
    known_models,
    learn_models,
    offered_models,
    set_facts,
    set_price,
)
from agents.providers.base import ModelFacts
from agents.providers.keys import Source, check, credentials, delete_key, save_key, statuses
from agents.providers.registry import PROVIDERS
from core.exceptions import Fault, NotFound
from core.pagination import whole_page, whole_page_of
from core.rest import OwnSerializer, StrictJSONParser, TextField, validate_body
from core.validation import read_input
from sessions_app.sessions import move_to_newest
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of, required_verb
from tenants.models import Price


class ModelServerSerializer(serializers.Serializer):
    label = serializers.CharField()  # type: ignore[assignment]
    base_url = serializers.CharField()


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
    presets = ModelServerSerializer(many=True, help_text="Known servers with the provider's API.")
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


class ListedModelSerializer(serializers.Serializer):
    """A model that can be chosen, with what is known of it: set here, told by its server, or listed."""

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
    tools = serializers.BooleanField(allow_null=True, help_text="Whether it can call tools.")
    images = serializers.BooleanField(allow_null=True, help_text="Whether it can read images.")
    files = serializers.BooleanField(allow_null=True, help_text="Whether it can read PDFs.")
    audio = serializers.BooleanField(allow_null=True, help_text="Whether it can hear sound.")


class ModelSerializer(ListedModelSerializer):
    """A known model. Other names are passed on to the provider as they are."""

    provider = serializers.CharField()
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
        """Delete the workspace's key. The operator's key counts again, if it may be used."""
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
        if result.ok:
            with suppress(Fault):
                learn_models(workspace_id, name)
        return Response(CheckSerializer(result).data)


LISTED_MODELS = whole_page_of(ListedModelSerializer)


class FactsSerializer(serializers.Serializer):
    """What to set for a model. Fields that are left out or null are not set any more."""

    model = TextField(
        required=False,
        allow_blank=True,
        max_length=120,
        help_text="Empty for every model of the server.",
    )
    window = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    max_output = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    input_price = serializers.DecimalField(
        max_digits=12, decimal_places=6, required=False, allow_null=True, min_value=0
    )
    output_price = serializers.DecimalField(
        max_digits=12, decimal_places=6, required=False, allow_null=True, min_value=0
    )
    tools = serializers.BooleanField(required=False, allow_null=True)
    images = serializers.BooleanField(required=False, allow_null=True)
    files = serializers.BooleanField(required=False, allow_null=True)
    audio = serializers.BooleanField(required=False, allow_null=True)


class ProviderModelsView(ProviderBaseView):
    verbs = {"GET": "read", "POST": "admin", "PUT": "admin"}

    @extend_schema(operation_id="provider_models_list", responses=LISTED_MODELS)
    def get(self, request: Request, name: str) -> Response:
        """List the provider's models, as its server listed them when it was last asked."""
        return self._listed(self.workspace_id(name), name)

    @extend_schema(
        operation_id="provider_models_refresh",
        request=None,
        responses=LISTED_MODELS,
    )
    def post(self, request: Request, name: str) -> Response:
        """Ask the server for its models and what it tells about them."""
        workspace_id = self.workspace_id(name)
        learn_models(workspace_id, name)
        return self._listed(workspace_id, name)

    @extend_schema(
        operation_id="provider_models_set",
        request=FactsSerializer,
        responses=LISTED_MODELS,
    )
    def put(self, request: Request, name: str) -> Response:
        """Set the window, prices and abilities of a model, or of every model of the server."""
        workspace_id = self.workspace_id(name)
        body = validate_body(request, FactsSerializer)
        model = body.pop("model", "")
        by = principal_of(request).user
        set_facts(workspace_id, name, model, read_input(ModelFacts, body), by=by)
        return self._listed(workspace_id, name)

    def _listed(self, workspace_id: UUID, name: str) -> Response:
        own_server = statuses(workspace_id)[name].own_server
        found = offered_models(workspace_id, name, own_server=own_server)
        return whole_page(ListedModelSerializer(found, many=True).data)


class UseSerializer(serializers.Serializer):
    model = TextField(max_length=120)
    move_sessions = serializers.BooleanField(
        default=False, help_text="Let open sessions of the moved agents go on with it."
    )


class MovedSerializer(serializers.Serializer):
    agents = serializers.ListField(
        child=serializers.UUIDField(), help_text="Agents that got a new version with this model."
    )
    sessions = serializers.IntegerField(help_text="Open sessions that go on with it.")


class ProviderUseView(ProviderBaseView):
    verbs = {"POST": "admin"}

    @extend_schema(
        operation_id="providers_use",
        request=UseSerializer,
        responses={200: MovedSerializer, 409: OpenApiResponse(description="There is no key.")},
    )
    def post(self, request: Request, name: str) -> Response:
        """Make a model the default of the workspace. Agents on the demo or on the last default get
        a new version with it; the others keep the model that they name.
        """
        workspace_id = self.workspace_id(name)
        body = validate_body(request, UseSerializer)
        credentials(workspace_id, name)
        choice = Choice(provider=name, model=body["model"])
        moved = use_for_all_agents(workspace_id, choice, by=principal_of(request).user)
        sessions = move_to_newest(moved) if body["move_sessions"] else 0
        return Response({"agents": [str(agent.pk) for agent in moved], "sessions": sessions})


class ModelListView(APIView):
    @extend_schema(operation_id="models_list", responses=whole_page_of(ModelSerializer))
    def get(self, request: Request) -> Response:
        """List the known models with windows and prices, and whether they can be used now."""
        workspace_id = authorise(principal_of(request), "read")
        found = statuses(workspace_id)
        choice = default_model(workspace_id, found)
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
