"""REST: policies with their revisions, and explanations of their decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, get_args
from uuid import UUID

from django.apps import apps
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.base import pop_number, writable_fields
from agents.definitions import current_version, version_by_id
from agents.models import Agent
from core.exceptions import NotFound
from core.pagination import PAGE, NewestFirst, whole_page, whole_page_of
from core.rest import StrictJSONParser, TextField
from sessions_app.context.taint import exposure_of
from tenants.access import Principal, Verb, authorise
from tenants.authentication import principal_of, required_verb
from tools_app.models import ToolPolicy
from tools_app.policy import storage
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import EffectivePolicy
from tools_app.policy.rules import PEER_RIGHTS, PROFILES, LayerName, Verdict
from tools_app.policy.storage import PolicyTarget

PROFILE_CHOICES = [(name, name) for name in PROFILES]
DECISIONS = [(name, name) for name in get_args(Verdict)]
LAYERS = [*ToolPolicy.Layer.choices, ("default", "Default")]


def _rules(help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(),
        required=False,
        max_length=storage.MOST_RULES,
        help_text=help_text,
    )


class PeerSerializer(serializers.Serializer):
    """Another agent, and what may be done with its sessions of the same person."""

    agent = serializers.UUIDField()
    may = serializers.ListField(
        child=serializers.ChoiceField(choices=[(one, one) for one in PEER_RIGHTS]), min_length=1
    )


class PolicyWordsSerializer(serializers.Serializer):
    """The rules of one layer."""

    profile = serializers.ChoiceField(
        choices=PROFILE_CHOICES,
        required=False,
        allow_null=True,
        help_text="The set of tools to start from. Null: `coding` for an agent, else no limit.",
    )
    allowed_tools = _rules(
        "If empty, the whole profile; otherwise only the tools that these rules name. "
        "Only a rule with a pattern lets a tool that asks run without asking."
    )
    denied_tools = _rules("Names, `group:web`, `mcp:github:*`, `exec(rm *)`. Denying wins.")
    ask_tools = _rules("Calls that need a person's approval first.")
    approved_tools = _rules(
        "Calls of an agent that run without asking, such as `exec(git status*)`. They narrow nothing."
    )
    max_tool_calls_per_turn = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=storage.MOST_CALLS
    )
    peers = serializers.ListField(
        child=PeerSerializer(),
        required=False,
        max_length=storage.MOST_PEERS,
        help_text="The agents whose sessions this agent may list, read or write to, in the policy "
        "of an agent. Adding one takes the right to admin.",
    )


class PolicySerializer(PolicyWordsSerializer):
    layer = serializers.ChoiceField(choices=LAYERS, read_only=True)
    revision = serializers.IntegerField(
        read_only=True, help_text="0 until the policy is saved for the first time."
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True, allow_null=True)
    expected_revision = serializers.IntegerField(
        write_only=True,
        required=False,
        help_text="Refuse the change with 409 if this is not the newest revision.",
    )


class PolicyRevisionSerializer(PolicyWordsSerializer):
    """A revision of a policy, with its author."""

    revision = serializers.IntegerField()
    author = serializers.CharField(help_text="The person's e-mail address, or the key's name.")
    reverts_to = serializers.IntegerField(
        allow_null=True, help_text="The revision that was restored, if this was a revert."
    )
    created_by = serializers.UUIDField(source="created_by_id", allow_null=True)
    created_at = serializers.DateTimeField()


class RevertSerializer(serializers.Serializer):
    revision = serializers.IntegerField(
        min_value=0, help_text="0 restores the defaults before the first revision."
    )


STALE = OpenApiResponse(description="`expected_revision` is not the newest revision.")


class PolicyAPIView(APIView):
    """Looks up the object before it reads the body, so that a stranger learns nothing by sending one."""

    layer: ClassVar[LayerName] = "agent"
    parser_classes = [StrictJSONParser]

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    def target(self, named: dict[str, UUID]) -> PolicyTarget:
        workspace_id = authorise(self.principal, required_verb(self.request, self))
        return storage.find_target(workspace_id, self.layer, next(iter(named.values()), None))


class PolicyView(PolicyAPIView):
    @extend_schema(responses=PolicySerializer)
    def get(self, request: Request, **named: UUID) -> Response:
        """Return the policy of this layer. A layer can only narrow what the layers above it allow."""
        return Response(PolicySerializer(storage.stored_policy(self.target(named))).data)

    @extend_schema(request=PolicySerializer, responses={200: PolicySerializer, 409: STALE})
    def put(self, request: Request, **named: UUID) -> Response:
        """Replace the policy from the next run on. Fields that are left out get their defaults.

        Letting commands, messages or MCP tools act without asking takes a higher right.
        """
        target = self.target(named)
        fields = writable_fields(request, PolicySerializer)
        expected = pop_number(fields, "expected_revision")
        saved = storage.change_policy(self.principal, target, fields, expected_revision=expected)
        return Response(PolicySerializer(saved).data)


class HistoryView(PolicyAPIView):
    @extend_schema(parameters=PAGE, responses=whole_page_of(PolicyRevisionSerializer))
    def get(self, request: Request, **named: UUID) -> Response:
        """List all revisions of the policy with their authors, newest first."""
        pages = NewestFirst()
        found = pages.paginate_queryset(storage.policy_history(self.target(named)), request, self)
        return pages.get_paginated_response(list(PolicyRevisionSerializer(found, many=True).data))


class RevertView(PolicyAPIView):
    @extend_schema(request=RevertSerializer, responses={200: PolicySerializer})
    def post(self, request: Request, **named: UUID) -> Response:
        """Restore a revision of the policy, as its newest revision."""
        target = self.target(named)
        serializer = RevertSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        saved = storage.revert_policy(self.principal, target, serializer.validated_data["revision"])
        return Response(PolicySerializer(saved).data)


def policy_views(layer: LayerName, verb: Verb) -> dict[str, Any]:
    """Return the three views of one layer. Changing its policy takes this right."""
    of_layer = {"layer": layer, "verbs": {"PUT": verb, "POST": verb}}
    kinds = {"": PolicyView, "history": HistoryView, "revert": RevertView}
    return {
        name: type(f"{layer.title()}{view.__name__}", (view,), of_layer)
        for name, view in kinds.items()
    }


class CallSerializer(serializers.Serializer):
    """A hypothetical call."""

    tool = TextField(max_length=160)
    input = serializers.DictField(required=False)


class LinkSerializer(serializers.Serializer):
    """The verdict of one layer by itself."""

    layer = serializers.ChoiceField(choices=LAYERS)
    decision = serializers.ChoiceField(choices=DECISIONS)
    rule = serializers.CharField()


class ExplanationSerializer(serializers.Serializer):
    tool = serializers.CharField()
    decision = serializers.ChoiceField(choices=DECISIONS)
    layer = serializers.ChoiceField(choices=LAYERS, help_text="The layer that decided.")
    rule = serializers.CharField(help_text="The rule that decided.")
    decided_by = serializers.CharField(help_text="Layer and rule, as in the events of a call.")
    chain = LinkSerializer(many=True, help_text="The verdict of every layer, workspace first.")


TOOL = OpenApiParameter(
    "tool", str, description="Explain only this tool, as an object instead of a list."
)
EXPLAINED = PolymorphicProxySerializer(
    component_name="Explained",
    serializers=[ExplanationSerializer, whole_page_of(ExplanationSerializer)],
    resource_type_field_name=None,
)


def agent_policy(principal: Principal, agent_id: UUID) -> EffectivePolicy:
    """Return the policy of a new session of the agent."""
    agents = Agent.objects.for_workspace(authorise(principal, "read")).select_related("current")
    agent = agents.filter(pk=agent_id).first()
    if agent is None:
        raise NotFound
    return effective_policy(current_version(agent))


def session_policy(principal: Principal, session_id: UUID) -> EffectivePolicy:
    """Return the policy of the session's next run."""
    sessions: Any = apps.get_model("sessions_app.Session")._default_manager
    owned = sessions.for_workspace(authorise(principal, "read"))
    session = owned.filter(pk=session_id).first()
    if session is None:
        raise NotFound
    policy = effective_policy(version_by_id(session.agent_version_id), session.pk)
    policy.exposure = exposure_of(session.pk, session, policy.peers("send"))
    return policy


class ExplainView(APIView):
    """Explains a policy. It only reads: a simulated call is not made."""

    parser_classes = [StrictJSONParser]
    verbs = {"POST": "read"}
    #: How the policy is found: `agent_policy` or `session_policy`.
    policy_of: Callable[[Principal, UUID], EffectivePolicy] = staticmethod(agent_policy)

    @extend_schema(parameters=[TOOL], responses=EXPLAINED)
    def get(self, request: Request, **named: UUID) -> Response:
        """Explain the decision on a tool: which layer and which rule made it.

        Without `tool`, all tools are explained, in a list under `results`.
        """
        policy = self.policy_of(principal_of(request), *named.values())
        if tool := request.query_params.get("tool"):
            return Response(ExplanationSerializer(policy.explain(tool)).data)
        everything = [policy.explain(name) for name in sorted(policy)]
        return whole_page(ExplanationSerializer(everything, many=True).data)

    @extend_schema(request=CallSerializer, responses=ExplanationSerializer)
    def post(self, request: Request, **named: UUID) -> Response:
        """Explain what would happen on a call with this input. The call is not made."""
        policy = self.policy_of(principal_of(request), *named.values())
        serializer = CallSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        call = serializer.validated_data
        explanation = policy.simulate(call["tool"], call.get("input", {}))
        return Response(ExplanationSerializer(explanation).data)
