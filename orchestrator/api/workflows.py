"""REST: workflows, their steps and events, what can be done with them, and runs of canvases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from agents.definitions import find_agent
from agents.models import Agent
from core.exceptions import NotFound
from core.pagination import whole_page, whole_page_of
from core.rest import PatternField, StrictJSONParser, TextField, validate_body
from core.validation import can_be_stored, errors_under
from orchestrator.canvas.draft_runs import start_test
from orchestrator.canvas.node_states import costs_of, detail_of, states_of, with_previews
from orchestrator.canvas.plan import CANVAS
from orchestrator.consumers import node_field
from orchestrator.engine import approvals, lifecycle
from orchestrator.engine.definition import definitions
from orchestrator.engine.lifecycle import find_workflow, start_as
from orchestrator.models import Step, Workflow, WorkflowEvent, attempts_of
from sessions_app.api import base
from sessions_app.api.base import ObjectField
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tenants.authentication import required_verb

JSON = {"description": "Any JSON value.", "nullable": True}


class StartInput(serializers.Serializer):
    name = TextField(max_length=100, help_text="The name of a workflow.")
    params = ObjectField(required=False, default=dict)
    id = TextField(
        max_length=200,
        required=False,
        allow_null=True,
        help_text="Your own id for it. The same id, name and params start it once.",
    )
    agent = TextField(
        max_length=80,
        required=False,
        allow_null=True,
        help_text="The agent on whose behalf it runs, by id or exact name.",
    )
    priority = serializers.IntegerField(min_value=-100, max_value=100, default=0)
    concurrency_key = PatternField(
        r"^[^\x00]*$",
        max_length=150,
        required=False,
        allow_blank=True,
        default="",
        help_text="Workflows with the same key run one at a time.",
    )


class AcceptedSerializer(serializers.Serializer):
    """A workflow that was started for a request, whose progress its resource shows."""

    workflow_id = serializers.UUIDField()
    status = serializers.CharField()


def describe_workflow(workflow: Workflow) -> dict[str, object]:
    return {"workflow_id": str(workflow.pk), "status": workflow.status}


class SendInput(serializers.Serializer):
    type = PatternField(r"^[^\x00]+$", max_length=100)
    payload = serializers.JSONField(required=False, default=None)


class AnswerInput(serializers.Serializer):
    note = TextField(max_length=2000, required=False, allow_blank=True, default="")
    step = TextField(
        max_length=200,
        required=False,
        allow_blank=True,
        default="",
        help_text="The name of the step that waits. Only needed if several wait.",
    )


class TerminateInput(serializers.Serializer):
    rollback = serializers.BooleanField(default=False, help_text="Undo what the workflow did.")


class RestartInput(serializers.Serializer):
    from_step = TextField(
        max_length=200,
        required=False,
        allow_blank=True,
        allow_null=True,
        default="",
        help_text="Keep the results of the steps before this one.",
    )
    nth = serializers.IntegerField(min_value=1, max_value=10_000, default=1)


class ErrorSerializer(serializers.Serializer):
    code = serializers.CharField()
    message = serializers.CharField()


class AttemptSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    status = serializers.CharField()
    error = ErrorSerializer(allow_null=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class StepSerializer(serializers.ModelSerializer):
    result = serializers.SerializerMethodField()
    error = ErrorSerializer(allow_null=True)
    attempts = serializers.SerializerMethodField()

    class Meta:
        model = Step
        fields = [
            "position", "name", "nth", "kind", "status", "result", "error", "detail", "attempts",
            "retry_at", "wake_at", "started_at", "finished_at",
        ]  # fmt: skip

    @extend_schema_field(JSON)
    def get_result(self, step: Step) -> Any:
        return step.output

    @extend_schema_field(AttemptSerializer(many=True))
    def get_attempts(self, step: Step) -> Any:
        return AttemptSerializer(attempts_of(step), many=True).data


class ProgressSerializer(serializers.Serializer):
    step = serializers.CharField()
    status = serializers.CharField()
    message = serializers.CharField()
    percent = serializers.FloatField(allow_null=True)
    eta_seconds = serializers.FloatField(allow_null=True)


class WorkflowSerializer(serializers.ModelSerializer):
    """`id` is the client's own, if it gave one; `workflow_id` is always the server's."""

    id = serializers.CharField(source="key", help_text="The client's id, or the server's.")
    workflow_id = serializers.UUIDField(
        source="pk", help_text="The server's id, as in frames and approvals."
    )
    error = ErrorSerializer(allow_null=True)
    progress = ProgressSerializer(allow_null=True)

    class Meta:
        model = Workflow
        fields = [
            "id", "workflow_id", "key", "name", "version", "status", "params", "progress",
            "error", "agent", "parent", "priority", "generation", "recoveries", "is_dead",
            "wake_at", "last_seq", "created_by", "created_at", "started_at", "finished_at",
        ]  # fmt: skip


class WorkflowDetailSerializer(WorkflowSerializer):
    result = serializers.SerializerMethodField()
    steps = StepSerializer(many=True)

    class Meta(WorkflowSerializer.Meta):
        fields = [*WorkflowSerializer.Meta.fields, "result", "steps"]

    @extend_schema_field(JSON)
    def get_result(self, workflow: Workflow) -> Any:
        return workflow.output


class WorkflowEventSerializer(serializers.Serializer):
    seq = serializers.IntegerField()
    type = serializers.CharField()
    node = serializers.SerializerMethodField()
    payload = serializers.DictField()
    created_at = serializers.DateTimeField()

    def get_node(self, event: WorkflowEvent) -> str | None:
        """Return the node that an event of a canvas run is about."""
        return node_field(event).get("node")


class SentSerializer(serializers.Serializer):
    seq = serializers.IntegerField(help_text="Its seq in the workflow's log.")


class DefinitionSerializer(serializers.Serializer):
    name = serializers.CharField()
    version = serializers.IntegerField()
    description = serializers.CharField()
    params = serializers.DictField(allow_null=True, help_text="A JSON Schema.")


class WorkflowFilter(filters.FilterSet):
    name = filters.CharFilter(label="The name of a registered workflow.")
    status = filters.ChoiceFilter(choices=Workflow.Status.choices)
    parent = filters.UUIDFilter(field_name="parent_id", label="Children of this workflow.")
    dead = filters.BooleanFilter(field_name="is_dead", label="Workflows that were given up.")


def show(workflow_id: UUID) -> dict[str, Any]:
    """Return one workflow with its steps and attempts, in a constant number of queries."""
    steps = Step.objects.order_by("position").prefetch_related("failures")
    found = Workflow.objects.prefetch_related(Prefetch("steps", steps)).get(pk=workflow_id)
    return dict(WorkflowDetailSerializer(found).data)


class WorkflowViewSet(ListModelMixin, WorkspaceViewSet):
    queryset = Workflow.objects.all()
    serializer_class = WorkflowSerializer
    filterset_class = WorkflowFilter
    parser_classes = [StrictJSONParser]
    #: The server's id, or the client's.
    lookup_value_regex = "[^/]+"

    def find(self, pk: str) -> Workflow:
        return find_workflow(self.principal, pk, required_verb(self.request, self))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the workflows of the workspace, newest first."""
        return super().list(request, *args, **kwargs)

    @extend_schema(
        request=StartInput, responses={201: WorkflowDetailSerializer, 200: WorkflowDetailSerializer}
    )
    def create(self, request: Request) -> Response:
        """Start a workflow, or return the one that already has this id."""
        workspace_id = authorise(self.principal, "run")
        body = validate_body(request, StartInput)
        agent = body.pop("agent", None)
        agent_id = find_agent(workspace_id, agent).pk if agent else None
        name, params, key = body.pop("name"), body.pop("params"), body.pop("id", None)
        with errors_under("params"):
            started, is_new = start_as(
                self.principal, name, params, key=key, agent_id=agent_id, **body
            )
        return Response(show(started.pk), status=201 if is_new else 200)

    @extend_schema(responses=WorkflowDetailSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        """Return one workflow with its steps and their attempts."""
        return Response(show(self.find(pk).pk))

    @extend_schema(
        methods=["GET"],
        operation_id="workflows_events_list",
        parameters=base.LOG_PARAMETERS,
        responses=base.log_page_schema(WorkflowEventSerializer),
    )
    @extend_schema(
        methods=["POST"],
        operation_id="workflows_events_create",
        request=SendInput,
        responses={202: SentSerializer},
    )
    @action(detail=True, methods=["get", "post"])
    def events(self, request: Request, pk: str) -> Response:
        """GET: list its log, in order. POST: send it an event; one that comes early waits."""
        workflow = self.find(pk)
        if request.method == "POST":
            body = validate_body(request, SendInput)
            seq = lifecycle.send_event(workflow, **body, author_id=self.principal.user_id)
            return Response({"seq": seq}, status=202)
        log_range = base.LogRange.from_request(request)
        rows = workflow.events.after(log_range.after)[: log_range.limit + 1]
        return base.log_page(
            request, log_range, list(WorkflowEventSerializer(rows, many=True).data)
        )

    @extend_schema(request=AnswerInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Approve the step that waits for a person."""
        return self._answer(request, pk, allow=True)

    @extend_schema(request=AnswerInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: str) -> Response:
        """Reject the step that waits for a person."""
        return self._answer(request, pk, allow=False)

    def _answer(self, request: Request, pk: str, *, allow: bool) -> Response:
        def answer(workflow: Workflow) -> None:
            body = validate_body(request, AnswerInput)
            approvals.answer_approval(workflow, self.principal, allow=allow, **body)

        return self._control(pk, answer)

    def _control(self, pk: str, act: Callable[[Workflow], object]) -> Response:
        """Do this with the workflow, and show what became of it."""
        workflow = self.find(pk)
        act(workflow)
        return Response(show(workflow.pk), status=202)

    @extend_schema(request=None, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Let the running step finish and begin nothing new; timers stand still."""
        return self._control(pk, lifecycle.pause)

    @extend_schema(request=None, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Continue; every timer continues with the time it had left."""
        return self._control(pk, lifecycle.resume)

    @extend_schema(request=TerminateInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def terminate(self, request: Request, pk: str) -> Response:
        """End the workflow now, with its children; with `rollback`, undo what it did."""

        def terminate(workflow: Workflow) -> None:
            body = validate_body(request, TerminateInput)
            lifecycle.terminate(workflow, **body, author_id=self.principal.user_id)

        return self._control(pk, terminate)

    @extend_schema(request=RestartInput, responses={202: WorkflowDetailSerializer})
    @action(detail=True, methods=["post"])
    def restart(self, request: Request, pk: str) -> Response:
        """Restart it, or continue from a step with the results of those before it."""

        def restart(workflow: Workflow) -> None:
            body = validate_body(request, RestartInput)
            body["from_step"] = body["from_step"] or ""
            lifecycle.restart(workflow, **body, author_id=self.principal.user_id)

        return self._control(pk, restart)

    @extend_schema(
        operation_id="workflows_definitions", responses=whole_page_of(DefinitionSerializer)
    )
    @action(detail=False, methods=["get"])
    def definitions(self, request: Request) -> Response:
        """List the workflows that can be started, with the schema of their params."""
        return whole_page(
            [
                {
                    "name": made.name,
                    "version": made.version,
                    "description": made.description(),
                    "params": made.params.model_json_schema() if made.params else None,
                }
                for made in definitions()
            ]
        )


# ── Runs of an agent's published canvas ──────────────────────────────────────────────────────────

NODE_STATES = ["running", "waiting", "waiting_approval", "complete", "errored", "skipped"]


@extend_schema_field(JSON)
class AnyField(serializers.JSONField):
    """Any JSON value that PostgreSQL can store."""

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        if not can_be_stored(value):
            raise serializers.ValidationError("This cannot be stored.")
        return value


class CanvasRunInput(serializers.Serializer):
    input = AnyField(required=False, default=None, allow_null=True, help_text="Any JSON value.")
    id = TextField(
        max_length=200,
        required=False,
        allow_null=True,
        default=None,
        help_text="Your own id for the run. The same id and input start it once.",
    )


class CanvasTestInput(CanvasRunInput):
    revision = serializers.IntegerField(help_text="The newest revision, as you have seen it.")
    from_node = TextField(
        max_length=64,
        required=False,
        allow_null=True,
        default=None,
        help_text="Run only this node and those after it.",
    )
    from_run = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The run whose outputs the nodes before `from_node` keep.",
    )


class CanvasStartedSerializer(serializers.Serializer):
    workflow_id = serializers.UUIDField()
    revision = serializers.IntegerField()


class NodeAttemptSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    status = serializers.CharField()
    error = ErrorSerializer(allow_null=True)


class NodeStateSerializer(serializers.Serializer):
    node = serializers.CharField()
    status = serializers.ChoiceField(choices=NODE_STATES)
    error = ErrorSerializer(allow_null=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    is_given = serializers.BooleanField(
        help_text="Whether its output was given, pinned or from an earlier run."
    )
    preview = serializers.CharField(help_text="The beginning of its output.", allow_blank=True)
    cost = serializers.CharField(
        required=False, allow_null=True, help_text="What its agents cost, in dollars."
    )


class NodeDetailSerializer(NodeStateSerializer):
    input = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    has_output = serializers.BooleanField()
    attempts = NodeAttemptSerializer(many=True)
    session_id = serializers.UUIDField(allow_null=True)
    approval_step = serializers.CharField(allow_blank=True)


class CanvasRunSerializer(serializers.ModelSerializer):
    workflow_id = serializers.UUIDField(source="pk")
    revision = serializers.IntegerField(source="params.revision")
    input = serializers.JSONField(source="params.input", allow_null=True)
    error = ErrorSerializer(allow_null=True)
    is_test = serializers.BooleanField(source="params.test", default=False)
    nodes = serializers.SerializerMethodField()

    class Meta:
        model = Workflow
        fields = [
            "workflow_id", "status", "revision", "is_test", "input", "error", "nodes",
            "created_by", "created_at", "finished_at", "last_seq",
        ]  # fmt: skip

    @extend_schema_field(NodeStateSerializer(many=True))
    def get_nodes(self, run: Workflow) -> Any:
        costs = self.context.get("costs", {})
        states = states_of(run, run.steps.all())
        for state in states:
            state["cost"] = costs.get(state["node"])
        return NodeStateSerializer(states, many=True).data


class CanvasRunViewSet(ListModelMixin, WorkspaceViewSet):
    queryset = Workflow.objects.filter(name=CANVAS)
    serializer_class = CanvasRunSerializer
    parser_classes = [StrictJSONParser]

    def get_queryset(self) -> Any:
        steps = with_previews(Step.objects.order_by("position"))
        rows = super().get_queryset().filter(agent=self._agent()).defer("result")
        return rows.prefetch_related(Prefetch("steps", steps)).order_by("-created_at")

    def _agent(self) -> Agent:
        workspace_id = authorise(self.principal, required_verb(self.request, self))
        agents = Agent.objects.for_workspace(workspace_id)
        found = agents.filter(pk=self.kwargs["agent_id"]).first()
        if found is None:
            raise NotFound
        return found

    @extend_schema(operation_id="agents_canvas_runs_list")
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List runs of the canvas, newest first, with the state of each node."""
        self._agent()
        return super().list(request, *args, **kwargs)

    @extend_schema(operation_id="agents_canvas_runs_retrieve", responses=CanvasRunSerializer)
    def retrieve(self, request: Request, agent_id: UUID, run_id: UUID) -> Response:
        """Return one run, with the state and the cost of each node."""
        run = self.get_queryset().find(pk=run_id)
        context = {**self.get_serializer_context(), "costs": costs_of(run)}
        return Response(CanvasRunSerializer(run, context=context).data)

    @extend_schema(operation_id="agents_canvas_runs_node", responses=NodeDetailSerializer)
    def node(self, request: Request, agent_id: UUID, run_id: UUID, node: str) -> Response:
        """Return what one node received and returned in a run."""
        rows = Workflow.objects.for_workspace(self.principal.workspace_id)
        run = rows.filter(name=CANVAS, agent=self._agent()).defer("result").find(pk=run_id)
        return Response(NodeDetailSerializer(detail_of(run, node)).data)

    @extend_schema(
        operation_id="agents_canvas_test",
        request=CanvasTestInput,
        responses={202: CanvasStartedSerializer},
    )
    def test(self, request: Request, agent_id: UUID) -> Response:
        """Run the draft as a test, with the pinned outputs; optionally from one node on."""
        agent = self._agent()
        body = validate_body(request, CanvasTestInput)
        started = start_test(
            self.principal,
            agent,
            input=body["input"],
            revision=body["revision"],
            key=body["id"],
            begin=body["from_node"] or "",
            before=body["from_run"],
        )
        answer = {"workflow_id": started.pk, "revision": started.params["revision"]}
        return Response(answer, status=202)

    @extend_schema(
        operation_id="agents_canvas_run",
        request=CanvasRunInput,
        responses={202: CanvasStartedSerializer},
    )
    def run(self, request: Request, agent_id: UUID) -> Response:
        """Run the published canvas. Follow it as a workflow; frames name the node."""
        agent = self._agent()
        body = validate_body(request, CanvasRunInput)
        params = {"agent": str(agent.pk), "input": body["input"]}
        started, _ = start_as(self.principal, CANVAS, params, key=body["id"], agent_id=agent.pk)
        answer = {"workflow_id": started.pk, "revision": started.params["revision"]}
        return Response(answer, status=202)
