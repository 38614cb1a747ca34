"""REST: credits, budgets, prices and usage of the acting workspace."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.access import authorise
from tenants.api.base import RemoveMixin, WorkspaceViewSet
from tenants.api.money_serializers import (
    BudgetInput,
    BudgetSerializer,
    CreditEntrySerializer,
    CreditInput,
    CreditsSerializer,
    UsageReportSerializer,
)
from tenants.authentication import principal_of
from tenants.budgets import budgets, name_owner, set_budget
from tenants.credits import add_credits, balance_of
from tenants.models import CreditEntry, Purse
from tenants.usage import GROUPS, Line, Span, csv_text, report, totals


class CreditsView(APIView):
    """What the workspace has, and the last lines of its ledger."""

    verbs = {"post": "own"}

    @extend_schema(responses=CreditsSerializer)
    def get(self, request: Request) -> Response:
        """The balance in US dollars, and the newest lines of the ledger."""
        workspace_id = authorise(principal_of(request), "read")
        newest = CreditEntry.objects.for_workspace(workspace_id)[:50]
        return Response(
            CreditsSerializer({"balance": balance_of(workspace_id), "entries": newest}).data
        )

    @extend_schema(request=CreditInput, responses={201: CreditEntrySerializer})
    def post(self, request: Request) -> Response:
        """Grant credits, or adjust them. Only an owner may."""
        principal = principal_of(request)
        workspace_id = authorise(principal, "own")
        asked = CreditInput(data=request.data)
        asked.is_valid(raise_exception=True)
        entry = add_credits(workspace_id, author=principal.user, **asked.validated_data)
        return Response(CreditEntrySerializer(entry).data, status=201)


class CreditEntryViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """The ledger: every grant, adjustment and charge."""

    queryset = CreditEntry.objects.all()
    serializer_class = CreditEntrySerializer
    filterset_fields = ["kind"]


class BudgetViewSet(ListModelMixin, RetrieveModelMixin, RemoveMixin, WorkspaceViewSet):
    """How much an agent, a session, a member or a key may spend."""

    queryset = Purse.objects.all()
    serializer_class = BudgetSerializer
    filterset_fields = ["kind", "owner_id"]
    verbs = {"create": "admin", "partial_update": "admin", "destroy": "admin"}

    def get_queryset(self) -> Any:
        return budgets(self.principal.workspace_id)

    @extend_schema(request=BudgetInput, responses={201: BudgetSerializer})
    def create(self, request: Request) -> Response:
        """Set a budget. One that is there already is changed."""
        asked = BudgetInput(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted: dict[str, Any] = asked.validated_data
        workspace_id = authorise(self.principal, "admin")
        name_owner(workspace_id, wanted["kind"], wanted["owner_id"])
        purse = set_budget(workspace_id=workspace_id, author=self.principal.user, **wanted)
        return Response(BudgetSerializer(purse).data, status=201)

    @extend_schema(request=BudgetInput, responses=BudgetSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Raise or lower a budget. A raise lets what was stopped go on."""
        purse = self.get_object()
        asked = BudgetInput(data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        changed = set_budget(
            workspace_id=purse.workspace_id,
            kind=purse.kind,
            owner_id=purse.owner_id,
            ceiling=asked.validated_data.get("ceiling", purse.ceiling),
            period=asked.validated_data.get("period", purse.period),
        )
        return Response(BudgetSerializer(changed).data)


class UsageView(APIView):
    """What was used, and what it cost."""

    @extend_schema(
        parameters=[
            OpenApiParameter("by", str, enum=list(GROUPS), default="day"),
            OpenApiParameter("from", OpenApiTypes.DATE, description="30 days ago unless said"),
            OpenApiParameter("to", OpenApiTypes.DATE, description="today unless said"),
            OpenApiParameter("as", str, enum=["json", "csv"], default="json"),
        ],
        responses={
            (200, "application/json"): UsageReportSerializer,
            (200, "text/csv"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> Response | HttpResponse:
        """Calls, tokens and cost by day, member, agent, model, key or session; as JSON or CSV."""
        workspace_id = authorise(principal_of(request), "read")
        asked = request.query_params
        span = Span.read(asked.get("from"), asked.get("to"))
        by = asked.get("by", "day")
        lines = report(workspace_id, by, span)
        if asked.get("as") == "csv":
            return csv_of(by, lines)
        facts = {
            "by": by,
            "first": span.first,
            "last": span.last,
            "totals": totals(workspace_id, span),
            "results": lines,
            # All of it is on the first page; the members are there because every list has them.
            "next": None,
            "previous": None,
        }
        return Response(UsageReportSerializer(facts).data)


def csv_of(by: str, lines: list[Line]) -> HttpResponse:
    """The report as a file."""
    answer = HttpResponse(csv_text(by, lines), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="usage-by-{by}.csv"'
    return answer
