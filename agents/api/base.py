"""Helpers of REST views, and a view set for rows that have a unique name in their workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.fields import empty
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from agents.models import Agent
from core.exceptions import Invalid
from core.rest import StrictJSONParser, json_object
from core.validation import wrong_field
from tenants.access import Verb, authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import principal_of, required_verb
from tenants.models import OwnedModel, User


def writable_fields(request: Request, serializer: type[Serializer]) -> dict[str, Any]:
    """Return the fields of the body, without the read-only ones.

    So a client may send back what it received, with changes.
    """
    read_only = {name for name, field in serializer().fields.items() if field.read_only}
    return {name: value for name, value in json_object(request).items() if name not in read_only}


def version_number(body: Mapping[str, Any], name: str) -> int | None:
    """Return the version or revision number that a change is based on, if the body has one."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise wrong_field(name, "This must be the version or revision that the change is based on.")
    return value


def pop_number(body: dict[str, Any], name: str) -> int | None:
    """Remove a version or revision number from the body and return it."""
    number = version_number(body, name)
    body.pop(name, None)
    return number


class AgentFilter(filters.CharFilter):
    """Filters by `?agent=`, the id or the exact name of an agent."""

    def __init__(self, field_name: str = "agent", **words: Any) -> None:
        words.setdefault("label", "The id or the exact name of an agent.")
        super().__init__(field_name, **words)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        return qs.filter(**{f"{self.field_name}_id__in": self._named(value)}) if value else qs

    def _named(self, value: str) -> list[UUID]:
        try:
            return [UUID(value)]
        except ValueError:
            here = Agent.objects.for_workspace(principal_of(self.parent.request).workspace_id)
            found = list(here.filter(current__name=value).values_list("pk", flat=True))
        if not found:
            raise Invalid(f"agent: There is no agent {value[:80]!r} here.")
        return found


class NumberedViewSet(ListModelMixin, WorkspaceViewSet):
    """Lists the numbered rows of one agent, such as its versions, and returns one by its number."""

    def get_queryset(self) -> Any:
        return super().get_queryset().filter(agent_id=self.kwargs["agent_id"])

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        Agent.objects.for_workspace(self.principal.workspace_id).find(pk=self.kwargs["agent_id"])
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, agent_id: str, number: int) -> Response:
        return Response(self.get_serializer(self.get_queryset().find(number=number)).data)


V = TypeVar("V", bound="type[NamedRowViewSet]")


def write_verbs(verb: Verb) -> dict[str, Verb]:
    """Return the verbs of a view set all of whose writes need the same one."""
    return dict.fromkeys(("create", "update", "partial_update", "destroy"), verb)


class NamedRowViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    """Lists, creates, replaces, changes and deletes rows, through the functions of a service."""

    serializer_class: type[Serializer]
    parser_classes = [StrictJSONParser]
    verbs = write_verbs("build")

    def make(
        self, *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None
    ) -> OwnedModel:
        raise NotImplementedError

    def change(self, row: Any, fields: Mapping[str, Any], *, replace: bool) -> OwnedModel:
        """Change the named fields; with `replace`, unnamed fields get their default."""
        raise NotImplementedError

    def remove(self, row: Any) -> None:
        row.delete()

    def create(self, request: Request) -> Response:
        made = self.make(
            workspace_id=authorise(self.principal, required_verb(request, self)),
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
        return writable_fields(request, self.serializer_class)


def documented(
    *, taken: str = "The name is taken.", needed: str = "", **descriptions: str
) -> Callable[[V], V]:
    """Describe each action in the schema, and why a name or a deletion may be refused."""

    def document(view: V) -> V:
        serializer = view.serializer_class
        conflict = {409: OpenApiResponse(description=taken)}
        in_use = {409: OpenApiResponse(description=needed)} if needed else {}
        responses: dict[str, Any] = {
            "create": {201: serializer, **conflict},
            "update": {200: serializer, **conflict},
            "partial_update": {200: serializer, **conflict},
            "destroy": {204: None, **in_use},
        }
        all_descriptions = {"partial_update": "Change the named fields.", **descriptions}
        return extend_schema_view(
            **{
                name: extend_schema(description=text, responses=responses.get(name, empty))
                for name, text in all_descriptions.items()
            }
        )(view)

    return document
