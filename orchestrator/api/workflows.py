"""REST: workflows, started, looked at, told, and led through their life."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.definitions import find_agent
from agents.inputs import inside
from orchestrator import gates, lifecycle
from orchestrator.api.serializers import (
    AnswerInput,
    DefinitionSerializer,
    RestartInput,
    SendInput,
    SentSerializer,
    StartInput,
    TerminateInput,
    WorkflowDetailSerializer,
    WorkflowEventSerializer,
    WorkflowSerializer,
)
from orchestrator.engine.definition import definitions, description_of
from orchestrator.engine.starting import find_workflow, start_as
from orchestrator.models import Step, Workflow
from sessions_app.api.body import body_of
from sessions_app.api.pages import PLACE, Place, log_page, log_page_of
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.api.parsing import StrictJSONParser
from tenants.api.whole import whole_page, whole_page_of
from tenants.permissions import verb_of


class WorkflowFilter(filters.FilterSet):
    name = filters.CharFilter(label="The name of a registered workflow.")
    status = filters.ChoiceFilter(choices=Workflow.Status.choices)
    parent = filters.UUIDFilter(field_name="parent_id", label="Children of this workflow.")
    dead = filters.BooleanFilter(field_name="is_dead", label="Those that were given up.")


def show(workflow_id: UUID) -> dict[str, Any]:
    """One workflow with its steps and attempts, in a constant number of queries."""
    steps = Step.objects.order_by("position").prefetch_related("failures")
    found = Workflow.objects.prefetch_related(Prefetch("steps", steps)).get(pk=workflow_id)
    return dict(WorkflowDetailSerializer(found).data)


class WorkflowViewSet(ListModelMixin, WorkspaceViewSet):
    queryset = Workflow.objects.all()
    serializer_class = WorkflowSerializer
    filterset_class = WorkflowFilter
    parser_classes = [StrictJSONParser]
    #: The server's id, or the one that the client gave.
    lookup_value_regex = "[^/]+"

    def find(self, pk: str) -> Workflow:
        return find_workflow(self.principal, pk, verb_of(self.request, self))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Workflows of the workspace, the newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(
        request=StartInput, responses={201: WorkflowDetailSerializer, 200: WorkflowDetailSerializer}
    )
    def create(self, request: Request) -> Response:
        """Start a workflow, or get the one that this id has already."""
        workspace_id = authorise(self.principal, "run")
        asked = body_of(request, StartInput)
        agent = asked.pop("agent", None)
        agent_id = find_agent(workspace_id, agent).pk if agent else None
        name, params, key = asked.pop("name"), asked.pop("params"), asked.pop("id", None)
        with inside("params"):
            made, is_new = start_as(
                self.principal, name, params, key=key, agent_id=agent_id, **asked
            )
        return Response(show(made.pk), status=201 if is_new else 200)

    @extend_schema(responses=WorkflowDetailSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        """One workflow, with its steps and their attempts."""
        return Response(show(self.find(pk).pk))

    @extend_schema(
        methods=["GET"],
        operation_id="workflows_events_list",
        parameters=PLACE,
        responses=log_page_of(WorkflowEventSerializer),
    )
    @extend_schema(
        methods=["POST"],
        operation_id="workflows_events_create",
        request=SendInput,
        responses={202: SentSerializer},
    )
    @action(detail=True, methods=["get", "post"])
    def events(self, request: Request, pk: str) -> Response:
        """GET: what happened to it, in order. POST: send it an event; one that comes early waits."""
        workflow = self.find(pk)
        if request.method == "POST":
            asked = body_of(request, SendInput)
            seq = lifecycle.send_event(workflow, **asked, author_id=self.principal.user_id)
            return Response({"seq": seq}, status=202)
        place = Place.in_request(request)
        rows = workflow.events.after(place.after)[: place.limit + 1]
        return log_page(request, place, list(WorkflowEventSerializer(rows, many=True).data))

    @extend_schema(request=AnswerInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Say yes to the step that waits for a person."""
        return self._answer(request, pk, allow=True)

    @extend_schema(request=AnswerInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: str) -> Response:
        """Say no to the step that waits for a person."""
        return self._answer(request, pk, allow=False)

    def _answer(self, request: Request, pk: str, *, allow: bool) -> Response:
        workflow = self.find(pk)
        gates.answer_gate(workflow, self.principal, allow=allow, **body_of(request, AnswerInput))
        return Response(show(workflow.pk), status=202)

    @extend_schema(request=None, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Let the running step finish and begin nothing new; timers stand still."""
        workflow = self.find(pk)
        lifecycle.pause(workflow)
        return Response(show(workflow.pk), status=202)

    @extend_schema(request=None, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Go on; what was left of every timer is what is left of it now."""
        workflow = self.find(pk)
        lifecycle.resume(workflow)
        return Response(show(workflow.pk), status=202)

    @extend_schema(request=TerminateInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def terminate(self, request: Request, pk: str) -> Response:
        """End it now, with its children; with `rollback`, undo what it did."""
        workflow = self.find(pk)
        asked = body_of(request, TerminateInput)
        lifecycle.terminate(workflow, **asked, author_id=self.principal.user_id)
        return Response(show(workflow.pk), status=202)

    @extend_schema(request=RestartInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def restart(self, request: Request, pk: str) -> Response:
        """Begin anew, or from a step with the results of those before it."""
        workflow = self.find(pk)
        asked = body_of(request, RestartInput)
        asked["from_step"] = asked["from_step"] or ""
        lifecycle.restart(workflow, **asked, author_id=self.principal.user_id)
        return Response(show(workflow.pk), status=202)

    @extend_schema(
        operation_id="workflows_definitions", responses=whole_page_of(DefinitionSerializer)
    )
    @action(detail=False, methods=["get"])
    def definitions(self, request: Request) -> Response:
        """The workflows that can be started, with what each wants to know."""
        return whole_page(
            [
                {
                    "name": made.name,
                    "version": made.version,
                    "description": description_of(made),
                    "params": made.params.model_json_schema() if made.params else None,
                }
                for made in definitions()
            ]
        )
