"""REST: credits, budgets and usage of the acting workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.definitions import name_agents
from core.exceptions import NotFound
from core.pagination import PAGE, NewestFirst, link_after, rows_to_skip
from core.rest import OwnSerializer, TextField, validate_body
from sessions_app.sessions import name_sessions
from tenants.access import authorise, authorise_staff
from tenants.api.base import RemoveMixin, WorkspaceViewSet
from tenants.authentication import principal_of
from tenants.billing import usage
from tenants.billing.credits import add_credits, get_balance, list_budgets, set_budget
from tenants.models import CreditEntry, Purse

#: Where the names of each kind of budget owner come from.
NAMES: dict[str, Callable[[UUID, Iterable[UUID]], dict[UUID, str]]] = {
    "agent": name_agents,
    "session": name_sessions,
    "member": usage.name_members,
    "key": usage.name_keys,
}


def owner_names(workspace_id: UUID, kind: str, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of agents, sessions, members or keys by their ids, in one query."""
    return NAMES[kind](workspace_id, ids) if kind in NAMES else {}


def name_owner(workspace_id: UUID, kind: str, owner_id: UUID) -> str:
    """Return the name of a budget's owner, or raise NotFound if it is not in this workspace."""
    names = owner_names(workspace_id, kind, [owner_id])
    if owner_id not in names:
        raise NotFound(f"This workspace has no {kind} {owner_id}.")
    return names[owner_id]


class Dollars(serializers.DecimalField):
    def __init__(self, **options: object) -> None:
        super().__init__(max_digits=18, decimal_places=8, normalize_output=False, **options)  # type: ignore[arg-type]


class CreditEntrySerializer(serializers.ModelSerializer):
    class Meta:
        model = CreditEntry
        fields = ["id", "kind", "amount", "note", "call", "created_by", "created_at"]


class CreditsSerializer(serializers.Serializer):
    currency = serializers.SerializerMethodField()
    balance = Dollars(source="balance.balance")
    available = Dollars(source="balance.available")
    reserved = Dollars(source="balance.reserved")
    granted = Dollars(source="balance.ceiling")
    spent = Dollars(source="balance.spent")
    debt = Dollars(source="balance.debt")
    entries = CreditEntrySerializer(many=True)

    def get_currency(self, _: object) -> str:
        return "USD"


class CreditInput(serializers.Serializer):
    amount = Dollars()
    kind = serializers.ChoiceField(choices=["grant", "adjustment"], default="grant")
    note = TextField(max_length=200, required=False, allow_blank=True, default="")


class BudgetSerializer(OwnSerializer):
    limit = Dollars(source="ceiling")

    class Meta:
        model = Purse
        fields = [
            "id",
            "kind",
            "owner_id",
            "limit",
            "period",
            "spent",
            "reserved",
            "debt",
            "created_by",
            "created_at",
        ]


class BudgetInput(serializers.Serializer):
    kind = serializers.ChoiceField(choices=["agent", "session", "member", "key"])
    owner_id = serializers.UUIDField()
    limit = Dollars(source="ceiling", min_value=0)
    period = serializers.ChoiceField(choices=Purse.Period.choices, default=Purse.Period.EVER)


class UsageLineSerializer(serializers.Serializer):
    key = serializers.CharField()
    name = serializers.CharField()
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField(
        help_text="The input tokens among them that providers read from their caches."
    )
    cost = Dollars(help_text="The cost of model calls.")
    sandbox_cost = Dollars(
        allow_null=True, help_text="The cost of sandboxes, by day and by member; else null."
    )


class UsageTotalsSerializer(serializers.Serializer):
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField()
    cost = Dollars()
    sandbox_cost = Dollars()


class UsageReportSerializer(serializers.Serializer):
    by = serializers.CharField()
    first = serializers.DateField()
    last = serializers.DateField()
    totals = UsageTotalsSerializer()
    results = UsageLineSerializer(many=True)
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


class CreditsView(APIView):
    """The credits of the workspace and the newest entries of its ledger."""

    verbs = {"post": "own"}

    @extend_schema(responses=CreditsSerializer)
    def get(self, request: Request) -> Response:
        """Return the balance in US dollars and the newest entries of the ledger."""
        workspace_id = authorise(principal_of(request), "read")
        newest = CreditEntry.objects.for_workspace(workspace_id)[:50]
        return Response(
            CreditsSerializer({"balance": get_balance(workspace_id), "entries": newest}).data
        )

    @extend_schema(request=CreditInput, responses={201: CreditEntrySerializer})
    def post(self, request: Request) -> Response:
        """Grant or adjust credits. Only owners who are staff of this installation may."""
        principal = principal_of(request)
        workspace_id = authorise_staff(principal)
        given = validate_body(request, CreditInput)
        entry = add_credits(workspace_id, author=principal.user, **given)
        return Response(CreditEntrySerializer(entry).data, status=201)


class CreditEntryViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """The ledger: every grant, adjustment and charge."""

    queryset = CreditEntry.objects.all()
    serializer_class = CreditEntrySerializer
    filterset_fields = ["kind"]


class BudgetViewSet(ListModelMixin, RetrieveModelMixin, RemoveMixin, WorkspaceViewSet):
    """The budgets of agents, sessions, members and keys."""

    queryset = Purse.objects.all()
    serializer_class = BudgetSerializer
    filterset_fields = ["kind", "owner_id"]
    verbs = {"create": "admin", "partial_update": "admin", "destroy": "admin"}

    def get_queryset(self) -> Any:
        return list_budgets(self.principal.workspace_id)

    @extend_schema(request=BudgetInput, responses={201: BudgetSerializer})
    def create(self, request: Request) -> Response:
        """Set a budget. An existing one is changed."""
        wanted = validate_body(request, BudgetInput)
        workspace_id = authorise(self.principal, "admin")
        name_owner(workspace_id, wanted["kind"], wanted["owner_id"])
        purse = set_budget(workspace_id=workspace_id, author=self.principal.user, **wanted)
        return Response(BudgetSerializer(purse).data, status=201)

    @extend_schema(request=BudgetInput, responses=BudgetSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Raise or lower a budget. Sessions that it stopped continue after a raise."""
        purse = self.get_object()
        given = validate_body(request, BudgetInput, partial=True)
        changed = set_budget(
            workspace_id=purse.workspace_id,
            kind=purse.kind,
            owner_id=purse.owner_id,
            ceiling=given.get("ceiling", purse.ceiling),
            period=given.get("period", purse.period),
        )
        return Response(BudgetSerializer(changed).data)


class UsageView(APIView):
    """Usage and its cost."""

    @extend_schema(
        parameters=[
            OpenApiParameter("by", str, enum=list(usage.GROUPS), default="day"),
            OpenApiParameter(
                "from", OpenApiTypes.DATE, description="The first day. The default is 30 days ago."
            ),
            OpenApiParameter(
                "to", OpenApiTypes.DATE, description="The last day. The default is today."
            ),
            OpenApiParameter("as", str, enum=["json", "csv"], default="json"),
            *PAGE,
        ],
        responses={
            (200, "application/json"): UsageReportSerializer,
            (200, "text/csv"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> Response | HttpResponse:
        """Report calls, tokens and cost by day, member, agent, model, key or session, as JSON or CSV."""
        workspace_id = authorise(principal_of(request), "read")
        query = request.query_params
        span = usage.Span.parse(query.get("from"), query.get("to"))
        by = query.get("by", "day")
        if query.get("as") == "csv":
            return csv_response(by, usage.report(workspace_id, by, span, names=owner_names))
        limit, skip = NewestFirst().limit_of(request), rows_to_skip(request)
        page = usage.report_page(workspace_id, by, span, names=owner_names, skip=skip, limit=limit)
        facts = {
            "by": by,
            "first": span.first,
            "last": span.last,
            "totals": usage.totals(usage.daily(workspace_id, span)),
            "results": page.rows,
            "next": link_after(request, page.after),
            "previous": link_after(request, max(skip - limit, 0) if skip else None),
        }
        return Response(UsageReportSerializer(facts).data)


def csv_response(by: str, rows: list[usage.UsageRow]) -> HttpResponse:
    response = HttpResponse(usage.csv_text(by, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="usage-by-{by}.csv"'
    return response
