"""REST: which tools there are, which of them an agent has, and why."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.apps import apps
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.definitions import current_version, version_by_id
from agents.models import Agent
from config.faults import NotFound
from tenants.access import authorise
from tenants.api.parsing import StrictJSONParser
from tenants.api.whole import whole_page, whole_page_of
from tenants.authentication import principal_of
from tools_app.api.serializers import (
    CallSerializer,
    EffectiveToolSerializer,
    ExplanationSerializer,
    ToolSerializer,
    shown,
)
from tools_app.effective import EffectivePolicy
from tools_app.explanation import Explanation
from tools_app.selection import effective_policy
from tools_app.workspace_tools import tools_of_workspace

TOOL = OpenApiParameter(
    "tool", str, description="Explain this one alone, as an object and not as a list."
)
EXPLAINED = PolymorphicProxySerializer(
    component_name="Explained",
    serializers=[ExplanationSerializer, whole_page_of(ExplanationSerializer)],
    resource_type_field_name=None,
)


class ToolListView(APIView):
    @extend_schema(operation_id="tools_list", responses=whole_page_of(ToolSerializer))
    def get(self, request: Request) -> Response:
        """All tools that are known here, with what they do and whether they ask by default."""
        tools = tools_of_workspace(authorise(principal_of(request), "read"))
        return whole_page([shown(tools[name]) for name in sorted(tools)])


class PolicyReader(APIView):
    """Only reads, the simulated call too: nothing is called."""

    parser_classes = [StrictJSONParser]
    verbs = {"POST": "read"}

    def policy(self, subject_id: UUID) -> EffectivePolicy:
        raise NotImplementedError

    def workspace_id(self) -> UUID:
        return authorise(principal_of(self.request), "read")


class OfAgent(PolicyReader):
    def policy(self, subject_id: UUID) -> EffectivePolicy:
        """What would bind a new session of the agent."""
        agents = Agent.objects.for_workspace(self.workspace_id()).select_related("current")
        agent = agents.filter(pk=subject_id).first()
        if agent is None:
            raise NotFound
        return effective_policy(current_version(agent))


class OfSession(PolicyReader):
    def policy(self, subject_id: UUID) -> EffectivePolicy:
        """What would bind the session's next run."""
        sessions: Any = apps.get_model("sessions_app.Session")._default_manager
        session = sessions.for_workspace(self.workspace_id()).filter(pk=subject_id).first()
        if session is None:
            raise NotFound
        return effective_policy(version_by_id(session.agent_version_id), session.pk)


class AgentToolsView(OfAgent):
    @extend_schema(
        operation_id="agents_tools_list", responses=whole_page_of(EffectiveToolSerializer)
    )
    def get(self, request: Request, agent_id: UUID) -> Response:
        """The tools that the agent has, with their schemas, and whether a call asks first."""
        policy = self.policy(agent_id)
        return whole_page(
            [
                {
                    **shown(tool),
                    "decision": policy[name].decision,
                    "decided_by": policy[name].decided_by,
                }
                for name, tool in sorted(policy.offered().items())
            ]
        )


class ExplainView(PolicyReader):
    @extend_schema(parameters=[TOOL], responses=EXPLAINED)
    def get(self, request: Request, **named: UUID) -> Response:
        """What happens when a tool is called, and which layer and rule decide it.

        Without `tool`, a list with all of them under `results`.
        """
        policy = self.policy(*named.values())
        if tool := request.query_params.get("tool"):
            return _answer(policy.explain(tool))
        everything = [policy.explain(name) for name in sorted(policy)]
        return whole_page(ExplanationSerializer(everything, many=True).data)

    @extend_schema(request=CallSerializer, responses=ExplanationSerializer)
    def post(self, request: Request, **named: UUID) -> Response:
        """What would happen on a call with this input, and why. Nothing is called."""
        policy = self.policy(*named.values())
        asked = CallSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        call = asked.validated_data
        return _answer(policy.simulate(call["tool"], call.get("input", {})))


class AgentExplainView(OfAgent, ExplainView):
    pass


class SessionExplainView(OfSession, ExplainView):
    pass


def _answer(explanation: Explanation) -> Response:
    return Response(ExplanationSerializer(explanation).data)
