"""REST: the draft of an agent, its changes, and publishing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents import drafts
from agents.api.body import number_in, object_in
from agents.api.serializers import VersionSerializer
from agents.canvas import Author
from agents.drafts import Drafted
from agents.inputs import inside
from agents.models import Agent
from agents.undoing import discard, open_changes, undo
from config.faults import Invalid, NotFound
from tenants.access import Principal, Verb, authorise
from tenants.api.parsing import StrictJSONParser
from tenants.api.whole import PAGE, whole_page_of
from tenants.authentication import principal_of
from tenants.pagination import NewestFirst
from tenants.permissions import verb_of
from tools_app.api.draft_serializers import (
    DraftChangeSerializer,
    DraftInputSerializer,
    DraftPublishSerializer,
    DraftSerializer,
)
from tools_app.proposals import propose
from tools_app.publishing import publish

STALE = OpenApiResponse(description="`revision` is not the newest; `current` is the newer draft.")


class DraftDoor(APIView):
    """Finds the agent before it reads the body: a stranger learns nothing by sending one."""

    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"PATCH": "build", "POST": "build", "DELETE": "build"}

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    @property
    def author(self) -> Author:
        return Author(user_id=self.principal.user_id)

    def find(self, agent_id: UUID) -> Agent:
        workspace_id = authorise(self.principal, verb_of(self.request, self))
        rows = Agent.objects.for_workspace(workspace_id).known().select_related("current")
        agent = rows.filter(pk=agent_id, archived_at=None).first()
        if agent is None:
            raise NotFound
        return agent


class DraftView(DraftDoor):
    @extend_schema(operation_id="agents_draft_retrieve", responses=DraftSerializer)
    def get(self, request: Request, agent_id: UUID) -> Response:
        """The agent as it would be published, and what differs from what is published."""
        return Response(drafts.read(self.find(agent_id)).as_json())

    @extend_schema(
        operation_id="agents_draft_partial_update",
        request=DraftInputSerializer,
        responses={200: DraftSerializer, 409: STALE},
    )
    def patch(self, request: Request, agent_id: UUID) -> Response:
        """Change the draft. What is not named stays; a `policy` of null takes the proposal back."""
        agent = self.find(agent_id)
        body = object_in(request)
        changes = body.get("fields", {})
        if not isinstance(changes, dict):
            raise Invalid("fields is a JSON object.")
        return Response(self._change(agent, body, changes).as_json())

    @transaction.atomic
    def _change(self, agent: Agent, body: dict[str, Any], changes: dict[str, Any]) -> Drafted:
        seen = number_in(body, "revision")
        with inside("fields"):
            drafted = drafts.change(agent, changes, author=self.author, revision=seen)
        if "policy" in body:
            policy = body["policy"]
            if not (policy is None or isinstance(policy, dict)):
                raise Invalid("policy is a JSON object or null.")
            with inside("policy"):
                drafted = propose(agent, policy, author=self.author, revision=drafted.row.revision)
        return drafted

    @extend_schema(operation_id="agents_draft_destroy", responses={204: None})
    def delete(self, request: Request, agent_id: UUID) -> Response:
        """Throw the draft away. An agent that was never published is archived with it."""
        discard(self.find(agent_id), author=self.author)
        return Response(status=204)


class DraftPublishView(DraftDoor):
    @extend_schema(
        operation_id="agents_draft_publish",
        request=DraftPublishSerializer,
        responses={200: VersionSerializer, 409: STALE},
    )
    def post(self, request: Request, agent_id: UUID) -> Response:
        """Publish the draft as the agent's next version, with its policy and its canvas."""
        agent = self.find(agent_id)
        seen = number_in(object_in(request), "revision")
        return Response(VersionSerializer(publish(self.principal, agent, revision=seen)).data)


class DraftChangesView(DraftDoor):
    @extend_schema(
        operation_id="agents_draft_changes_list",
        parameters=PAGE,
        responses=whole_page_of(DraftChangeSerializer),
    )
    def get(self, request: Request, agent_id: UUID) -> Response:
        """What was changed in the draft as it is, by whom, the newest first."""
        pages = NewestFirst()
        found = pages.paginate_queryset(open_changes(self.find(agent_id)), request, self)
        return pages.get_paginated_response(list(DraftChangeSerializer(found, many=True).data))


class DraftUndoView(DraftDoor):
    @extend_schema(
        operation_id="agents_draft_changes_undo",
        request=None,
        responses={200: DraftSerializer, 409: OpenApiResponse(description="Changed again since.")},
    )
    def post(self, request: Request, agent_id: UUID, change_id: UUID) -> Response:
        """Take one change back, unless the same thing was changed again since."""
        return Response(undo(self.find(agent_id), change_id, author=self.author).as_json())
