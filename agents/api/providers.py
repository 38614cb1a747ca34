"""REST: model providers with their keys, and the models that are known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.agent_input import default_model
from agents.api.provider_serializers import (
    CheckSerializer,
    ModelSerializer,
    ProviderKeySerializer,
    ProviderSerializer,
    ProviderTestSerializer,
)
from agents.models_catalog import known_models
from agents.provider_keys import check, delete_key, save_key, statuses
from agents.providers.registry import PROVIDERS
from config.faults import NotFound
from tenants.access import authorise
from tenants.api.parsing import StrictJSONParser
from tenants.api.whole import whole_page, whole_page_of
from tenants.authentication import principal_of
from tenants.permissions import verb_of


def _body(request: Request, shape: type[serializers.Serializer]) -> dict[str, Any]:
    asked = shape(data=request.data)
    asked.is_valid(raise_exception=True)
    return asked.validated_data


class ProviderDoor(APIView):
    """Asks for the right before anything else, and for the provider's name next."""

    parser_classes = [StrictJSONParser]

    def workspace_id(self, name: str) -> UUID:
        workspace_id = authorise(principal_of(self.request), verb_of(self.request, self))
        if name not in PROVIDERS:
            raise NotFound(f"No model provider is named {name[:80]!r}.")
        return workspace_id


class ProviderListView(APIView):
    @extend_schema(operation_id="providers_list", responses=whole_page_of(ProviderSerializer))
    def get(self, request: Request) -> Response:
        """All providers, and whether this workspace can use them: by its own key or another."""
        workspace_id = authorise(principal_of(request), "read")
        found = statuses(workspace_id).values()
        return whole_page(ProviderSerializer(list(found), many=True).data)


class ProviderView(ProviderDoor):
    verbs = {"GET": "read", "PUT": "admin", "DELETE": "admin"}

    @extend_schema(operation_id="providers_retrieve", responses=ProviderSerializer)
    def get(self, request: Request, name: str) -> Response:
        """One provider, and whether this workspace can use it."""
        return Response(ProviderSerializer(statuses(self.workspace_id(name))[name]).data)

    @extend_schema(
        operation_id="providers_update",
        request=ProviderKeySerializer,
        responses=ProviderSerializer,
    )
    def put(self, request: Request, name: str) -> Response:
        """Set or replace the workspace's key. It can be used from now on and never read."""
        workspace_id = self.workspace_id(name)
        given = _body(request, ProviderKeySerializer)
        by = principal_of(request).user
        save_key(workspace_id=workspace_id, provider=name, by=by, **given)
        return Response(ProviderSerializer(statuses(workspace_id)[name]).data)

    @extend_schema(operation_id="providers_destroy", responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """Forget the workspace's key. The operator's, if there is one, counts again."""
        delete_key(workspace_id=self.workspace_id(name), provider=name)
        return Response(status=204)


class ProviderTestView(ProviderDoor):
    verbs = {"POST": "admin"}

    @extend_schema(
        operation_id="providers_test",
        request=ProviderTestSerializer,
        responses={200: CheckSerializer, 409: OpenApiResponse(description="There is no key.")},
    )
    def post(self, request: Request, name: str) -> Response:
        """Make one cheap call to the provider, and say whether it worked."""
        workspace_id = self.workspace_id(name)
        asked = _body(request, ProviderTestSerializer)
        found = check(workspace_id=workspace_id, provider=name, **asked)
        return Response(CheckSerializer(found).data)


class ModelListView(APIView):
    @extend_schema(operation_id="models_list", responses=whole_page_of(ModelSerializer))
    def get(self, request: Request) -> Response:
        """The known models with windows and prices, and which of them can be used now."""
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
