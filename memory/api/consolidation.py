"""REST views of consolidations: request, read, apply, discard and undo them, and each agent's choice."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema
from pydantic import Field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.base import AgentFilter
from agents.definitions import find_agent
from core.rest import StrictJSONParser
from core.validation import Input, read_input
from memory import proposals
from memory.models import Consolidation, ConsolidationChange, ConsolidationChoice
from sessions_app.consolidation import request_consolidation
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of

DECIDED = OpenApiResponse(description="It was decided already.")


class ReasonSerializer(serializers.Serializer):
    """Why one note goes or changes."""

    kind = serializers.CharField(
        help_text="duplicate, outdated, merged, moved, promoted or unused."
    )
    why = serializers.CharField()
    text = serializers.CharField(help_text="The note as it was.")
    kept = serializers.CharField(help_text="What stands for it now.")
    kept_in = serializers.CharField(help_text="The path of the document that has it.")


class ChangeSerializer(serializers.ModelSerializer):
    """The proposed change of one document."""

    reasons = ReasonSerializer(many=True, help_text="Empty when a document was redacted.")
    content = serializers.CharField(help_text="The proposed text while it waits.")

    class Meta:
        model = ConsolidationChange
        fields = [
            "id",
            "action",
            "entry",
            "path",
            "content",
            "reasons",
            "outcome",
            "remark",
            "version_before",
            "version_after",
        ]
        read_only_fields = fields


class ConsolidationSerializer(serializers.ModelSerializer):
    """A review of an agent's memory, without its changes."""

    class Meta:
        model = Consolidation
        fields = [
            "id",
            "agent",
            "status",
            "session_id",
            "run_id",
            "remark",
            "documents",
            "notes",
            "cost",
            "decided_at",
            "decided_by",
            "undone_at",
            "undone_by",
            "created_at",
        ]
        read_only_fields = fields


class WholeConsolidationSerializer(ConsolidationSerializer):
    """A review of an agent's memory with its changes."""

    changes = ChangeSerializer(many=True, read_only=True)

    class Meta(ConsolidationSerializer.Meta):
        fields = [*ConsolidationSerializer.Meta.fields, "changes"]
        read_only_fields = fields


class RequestSerializer(serializers.Serializer):
    agent = serializers.CharField(help_text="The id or the exact name of an agent.")


class ConsolidationRunSerializer(serializers.Serializer):
    session_id = serializers.UUIDField()
    run_id = serializers.UUIDField(source="pk")
    status = serializers.CharField()


class ConsolidationFilter(filters.FilterSet):
    agent = AgentFilter()

    class Meta:
        model = Consolidation
        fields = ["status"]


class ConsolidationRequest(Input):
    agent: Annotated[str, Field(min_length=1, max_length=200)]


class ConsolidationViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Reviews of agents' memories, newest first."""

    queryset = Consolidation.objects.all()
    serializer_class = ConsolidationSerializer
    filterset_class = ConsolidationFilter
    parser_classes = [StrictJSONParser]

    def get_queryset(self) -> Any:
        rows = super().get_queryset()
        return rows.prefetch_related("changes") if self.detail else rows

    @extend_schema(request=RequestSerializer, responses={202: ConsolidationRunSerializer})
    def create(self, request: Request) -> Response:
        """Queue a consolidation. A second request returns the same run while it waits."""
        workspace_id = authorise(self.principal, "run")
        given = read_input(ConsolidationRequest, request.data)
        agent = find_agent(workspace_id, given.agent)
        run = request_consolidation(agent, self.principal.user_id, self.principal.key_id)
        return Response(ConsolidationRunSerializer(run).data, status=202)

    @extend_schema(responses=WholeConsolidationSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return one consolidation with its changes."""
        return Response(WholeConsolidationSerializer(self.get_object()).data)

    @extend_schema(request=None, responses={200: WholeConsolidationSerializer, 409: DECIDED})
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, pk: str) -> Response:
        """Apply the changes whose documents have not changed since."""
        return self._decided(proposals.apply(self.get_object(), by=self.principal.user_id))

    @extend_schema(request=None, responses={200: WholeConsolidationSerializer, 409: DECIDED})
    @action(detail=True, methods=["post"])
    def discard(self, request: Request, pk: str) -> Response:
        """Discard the changes. They are not proposed again."""
        return self._decided(proposals.discard(self.get_object(), by=self.principal.user_id))

    @extend_schema(request=None, responses={200: WholeConsolidationSerializer, 409: DECIDED})
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, pk: str) -> Response:
        """Undo the changes. Later changes of other lines stay."""
        return self._decided(proposals.undo(self.get_object(), by=self.principal.user_id))

    def _decided(self, row: Consolidation) -> Response:
        return Response(WholeConsolidationSerializer(row).data)


class ChoiceSerializer(serializers.ModelSerializer):
    """How the memory of an agent is consolidated."""

    applies_itself = serializers.BooleanField(
        required=False, help_text="Apply changes without waiting for a person."
    )
    budget = serializers.DecimalField(
        max_digits=8,
        decimal_places=2,
        required=False,
        help_text="The most that the model calls of one consolidation may cost, in US dollars.",
    )

    class Meta:
        model = ConsolidationChoice
        fields = ["applies_itself", "budget"]


class ChoiceInput(Input):
    applies_itself: bool | None = None
    budget: Annotated[Decimal, Field(ge=0, max_digits=8, decimal_places=2)] | None = None


class ChoiceView(APIView):
    parser_classes = [StrictJSONParser]
    verbs = {"patch": "build"}

    @extend_schema(operation_id="agents_consolidation_retrieve", responses=ChoiceSerializer)
    def get(self, request: Request, agent_id: UUID) -> Response:
        """Return how the agent's memory is consolidated."""
        agent = find_agent(authorise(principal_of(request), "read"), agent_id)
        return Response(ChoiceSerializer(proposals.choice_of(agent)).data)

    @extend_schema(
        operation_id="agents_consolidation_partial_update",
        request=ChoiceSerializer,
        responses=ChoiceSerializer,
    )
    def patch(self, request: Request, agent_id: UUID) -> Response:
        """Change how the agent's memory is consolidated."""
        agent = find_agent(authorise(principal_of(request), "build"), agent_id)
        given = read_input(ChoiceInput, request.data)
        choice = proposals.set_choice(
            agent, applies_itself=given.applies_itself, budget=given.budget
        )
        return Response(ChoiceSerializer(choice).data)
