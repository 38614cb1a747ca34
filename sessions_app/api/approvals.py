"""REST: approvals, listed and answered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.filters import AgentFilter
from sessions_app.api.approval_shapes import ApprovalInput, ApprovalSerializer
from sessions_app.api.body import body_of
from sessions_app.approvals import Answer, resolve
from sessions_app.models import Approval
from sessions_app.tree import tree_of
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser

RELATED = ("session", "agent__current", "execution")


class ApprovalFilter(filters.FilterSet):
    status = filters.ChoiceFilter(choices=Approval.Status.choices)
    session = filters.UUIDFilter(method="of_session", label="The id of a session.")
    agent = AgentFilter()
    tree = filters.BooleanFilter(
        method="with_descendants", label="With `session`: of the sessions below it, too."
    )

    def with_descendants(
        self, rows: QuerySet[Approval], _name: str, value: bool
    ) -> QuerySet[Approval]:
        """Takes the place of the plain filter by session, which leaves its rows alone then."""
        top = self.form.cleaned_data.get("session")
        if not (value and top):
            return rows
        return rows.filter(session_id__in=[top, *(branch.id for branch in tree_of(top))])

    def of_session(self, rows: QuerySet[Approval], _name: str, top: UUID) -> QuerySet[Approval]:
        return rows if self.form.cleaned_data.get("tree") else rows.filter(session_id=top)


class ApprovalViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Approval.objects.select_related(*RELATED)
    serializer_class = ApprovalSerializer
    filterset_class = ApprovalFilter
    parser_classes = [StrictJSONParser]

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "may_run": self.principal.may("run")}

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """What people were asked, the newest first."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One question, and its answer."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(
        operation_id="approvals_answer", request=ApprovalInput, responses=ApprovalSerializer
    )
    def answer(self, request: Request, pk: str) -> Response:
        """Allow or deny. It is answered once: a second answer is 409 and says who was first."""
        approval: Approval = self.get_object()
        said = Answer(**body_of(request, ApprovalInput))
        resolved = resolve(approval, said, self.principal)
        shown = self.get_queryset().get(pk=resolved.approval.pk)
        return Response(self.get_serializer(shown).data)
