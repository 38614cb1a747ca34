"""REST: the policy of a workspace, agent, environment or session, its past, and reverting to it."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.body import fields_in, take_number
from tenants.access import Principal, Verb, authorise
from tenants.api.parsing import StrictJSONParser
from tenants.api.whole import PAGE, whole_page_of
from tenants.authentication import principal_of
from tenants.pagination import NewestFirst
from tenants.permissions import verb_of
from tools_app.api.serializers import PolicyRevisionSerializer, PolicySerializer, RevertSerializer
from tools_app.places import Place, find_place
from tools_app.policies import change_policy, history_of, revert_policy, stored_policy
from tools_app.policy import LayerName

STALE = OpenApiResponse(description="`expected_revision` is not the newest revision.")


class PolicyDoor(APIView):
    """Finds the object before it reads the body: a stranger learns nothing by sending one."""

    layer: ClassVar[LayerName] = "agent"
    parser_classes = [StrictJSONParser]

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def place(self, named: dict[str, UUID]) -> Place:
        workspace_id = authorise(self.principal, verb_of(self.request, self))
        return find_place(workspace_id, self.layer, next(iter(named.values()), None))


class PolicyView(PolicyDoor):
    @extend_schema(responses=PolicySerializer)
    def get(self, request: Request, **named: UUID) -> Response:
        """What this layer says about tools. A layer can only narrow what those above it leave."""
        return Response(PolicySerializer(stored_policy(self.place(named))).data)

    @extend_schema(request=PolicySerializer, responses={200: PolicySerializer, 409: STALE})
    def put(self, request: Request, **named: UUID) -> Response:
        """Replace the policy. It binds the next run; what is not named gets its default.

        To let commands, messages or MCP tools act without asking takes a higher right.
        """
        place = self.place(named)
        fields = fields_in(request, PolicySerializer)
        expected = take_number(fields, "expected_revision")
        saved = change_policy(self.principal, place, fields, expected_revision=expected)
        return Response(PolicySerializer(saved).data)


class HistoryView(PolicyDoor):
    @extend_schema(parameters=PAGE, responses=whole_page_of(PolicyRevisionSerializer))
    def get(self, request: Request, **named: UUID) -> Response:
        """Every change of the policy with its author, the newest first."""
        pages = NewestFirst()
        found = pages.paginate_queryset(history_of(self.place(named)), request, self)
        return pages.get_paginated_response(list(PolicyRevisionSerializer(found, many=True).data))


class RevertView(PolicyDoor):
    @extend_schema(request=RevertSerializer, responses={200: PolicySerializer})
    def post(self, request: Request, **named: UUID) -> Response:
        """Bring back what the policy said at a revision, as its newest one."""
        place = self.place(named)
        asked = RevertSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        saved = revert_policy(self.principal, place, asked.validated_data["revision"])
        return Response(PolicySerializer(saved).data)


def doors_of(layer: LayerName, verb: Verb) -> dict[str, Any]:
    """The three views of one layer, for which changing takes this right."""
    of_layer = {"layer": layer, "verbs": {"PUT": verb, "POST": verb}}
    kinds = {"": PolicyView, "history": HistoryView, "revert": RevertView}
    return {
        name: type(f"{layer.title()}{view.__name__}", (view,), of_layer)
        for name, view in kinds.items()
    }
