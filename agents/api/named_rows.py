"""REST of rows that a workspace calls by name: listed, made, described anew, changed, deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.fields import empty
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from agents.api.body import fields_in
from tenants.access import Verb, authorise
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser
from tenants.models import OwnedModel, User
from tenants.permissions import verb_of

V = TypeVar("V", bound="type[NamedRowViewSet]")


def written_by(verb: Verb) -> dict[str, Verb]:
    """The rights of a view set whose rows are all written with the same one."""
    return dict.fromkeys(("create", "update", "partial_update", "destroy"), verb)


class NamedRowViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    serializer_class: type[Serializer]
    parser_classes = [StrictJSONParser]
    verbs = written_by("build")

    def make(
        self, *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None
    ) -> OwnedModel:
        raise NotImplementedError

    def change(self, row: Any, fields: Mapping[str, Any], *, replace: bool) -> OwnedModel:
        """Change what is named; with `replace`, what is not named gets its default."""
        raise NotImplementedError

    def remove(self, row: Any) -> None:
        row.delete()

    def create(self, request: Request) -> Response:
        made = self.make(
            workspace_id=authorise(self.principal, verb_of(request, self)),
            fields=self._fields(request),
            created_by=self.principal.user,
        )
        return Response(self.get_serializer(made).data, status=201)

    def update(self, request: Request, pk: str) -> Response:
        return self._change(request, replace=True)

    def partial_update(self, request: Request, pk: str) -> Response:
        return self._change(request, replace=False)

    def destroy(self, request: Request, pk: str) -> Response:
        self.remove(self.get_object())
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        changed = self.change(self.get_object(), self._fields(request), replace=replace)
        return Response(self.get_serializer(changed).data)

    def _fields(self, request: Request) -> dict[str, Any]:
        return fields_in(request, self.serializer_class)


def documented(
    *, taken: str = "The name is taken.", needed: str = "", **words: str
) -> Callable[[V], V]:
    """Say in the schema what each action does, and why a name or a row may be refused."""

    def document(view: V) -> V:
        shape = view.serializer_class
        refused = {409: OpenApiResponse(description=taken)}
        kept = {409: OpenApiResponse(description=needed)} if needed else {}
        responses: dict[str, Any] = {
            "create": {201: shape, **refused},
            "update": {200: shape, **refused},
            "partial_update": {200: shape, **refused},
            "destroy": {204: None, **kept},
        }
        told = {"partial_update": "Change what is named.", **words}
        return extend_schema_view(
            **{
                name: extend_schema(description=said, responses=responses.get(name, empty))
                for name, said in told.items()
            }
        )(view)

    return document
