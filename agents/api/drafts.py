"""REST views of an agent's draft: change, preview, undo and publish it, or ask the builder."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import (
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
    inline_serializer,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents import drafts
from agents.api.base import version_number
from agents.api.canvas import CanvasAuthorSerializer
from agents.api.serializers import DefinitionSerializer, VersionSerializer
from agents.canvas.revisions import Author, author_of
from agents.drafts import DraftState, discard, open_changes, undo
from agents.models import Agent, DraftChange
from core.exceptions import Invalid
from core.pagination import PAGE, NewestFirst, whole_page_of
from core.rest import StrictJSONParser, TextField, json_object, validate_body
from core.validation import errors_under
from sessions_app.api.base import client_dedupe_key
from sessions_app.builder import ask_builder, find_editable_agent, preview_session
from sessions_app.log.payloads import MAX_TEXT_LENGTH
from tenants.access import Principal, Verb, authorise
from tenants.authentication import principal_of, required_verb
from tools_app.api.policies import PolicyWordsSerializer
from tools_app.publishing import propose, publish


class DraftFieldsSerializer(DefinitionSerializer):
    """The definition, or the part of it that changes."""

    name = serializers.CharField(max_length=80, required=False)


class DraftPolicySerializer(PolicyWordsSerializer):
    """The policy that a draft proposes in place of the agent's."""


class DraftSerializer(serializers.Serializer):
    agent = serializers.UUIDField()
    version = serializers.IntegerField(help_text="The published version; 0 before the first.")
    revision = serializers.IntegerField(help_text="Incremented by every change of the draft.")
    is_empty = serializers.BooleanField(help_text="Nothing differs from the published version.")
    fields = DraftFieldsSerializer()  # type: ignore[assignment]
    changed = serializers.ListField(child=serializers.CharField())
    policy = DraftPolicySerializer(allow_null=True, help_text="Null if none is proposed.")
    canvas_changed = serializers.BooleanField()


class DraftInputSerializer(serializers.Serializer):
    revision = serializers.IntegerField(
        required=False, help_text="The revision that this is based on: 409 if it is not the newest."
    )
    fields = DraftFieldsSerializer(required=False)  # type: ignore[assignment]
    policy = DraftPolicySerializer(required=False, allow_null=True)


class DraftPublishSerializer(serializers.Serializer):
    revision = serializers.IntegerField(required=False, help_text="The revision that was reviewed.")


class ChangeAuthorSerializer(CanvasAuthorSerializer):
    pass


class DraftChangeSerializer(serializers.ModelSerializer):
    author = serializers.SerializerMethodField()

    class Meta:
        model = DraftChange
        fields = ["id", "revision", "part", "before", "after", "author", "created_at"]
        read_only_fields = fields

    @extend_schema_field(ChangeAuthorSerializer)
    def get_author(self, change: DraftChange) -> dict[str, str | None]:
        return author_of(change)


STALE = OpenApiResponse(description="`revision` is not the newest; `current` is the newer draft.")


class DraftBaseView(APIView):
    """Finds the agent before it reads the body, so that strangers learn nothing by sending one."""

    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"PATCH": "build", "POST": "build", "DELETE": "build"}

    @property
    def principal(self) -> Principal:
        return principal_of(self.request)

    @property
    def author(self) -> Author:
        return Author(user_id=self.principal.user_id)

    def find(self, agent_id: UUID) -> Agent:
        workspace_id = authorise(self.principal, required_verb(self.request, self))
        rows = Agent.objects.for_workspace(workspace_id).known().select_related("current")
        return rows.find(pk=agent_id, archived_at=None)


class DraftView(DraftBaseView):
    @extend_schema(operation_id="agents_draft_retrieve", responses=DraftSerializer)
    def get(self, request: Request, agent_id: UUID) -> Response:
        """Return the agent as it would be published, and what differs from the published version."""
        return Response(drafts.read(self.find(agent_id)).as_json())

    @extend_schema(
        operation_id="agents_draft_partial_update",
        request=DraftInputSerializer,
        responses={200: DraftSerializer, 409: STALE},
    )
    def patch(self, request: Request, agent_id: UUID) -> Response:
        """Change the named parts of the draft; a `policy` of null withdraws the proposal."""
        agent = self.find(agent_id)
        body = json_object(request)
        changes = body.get("fields", {})
        if not isinstance(changes, dict):
            raise Invalid("fields must be a JSON object.")
        return Response(self._change(agent, body, changes).as_json())

    @transaction.atomic
    def _change(self, agent: Agent, body: dict[str, Any], changes: dict[str, Any]) -> DraftState:
        seen = version_number(body, "revision")
        with errors_under("fields"):
            drafted = drafts.change(agent, changes, author=self.author, revision=seen)
        if "policy" in body:
            policy = body["policy"]
            if not (policy is None or isinstance(policy, dict)):
                raise Invalid("policy must be a JSON object or null.")
            with errors_under("policy"):
                drafted = propose(agent, policy, author=self.author, revision=drafted.row.revision)
        return drafted

    @extend_schema(operation_id="agents_draft_destroy", responses={204: None})
    def delete(self, request: Request, agent_id: UUID) -> Response:
        """Discard the draft. An agent that was never published is archived with it."""
        discard(self.find(agent_id), author=self.author)
        return Response(status=204)


class DraftPublishView(DraftBaseView):
    @extend_schema(
        operation_id="agents_draft_publish",
        request=DraftPublishSerializer,
        responses={200: VersionSerializer, 409: STALE},
    )
    def post(self, request: Request, agent_id: UUID) -> Response:
        """Publish the draft as the agent's next version, with its policy and its canvas."""
        agent = self.find(agent_id)
        seen = version_number(json_object(request), "revision")
        return Response(VersionSerializer(publish(self.principal, agent, revision=seen)).data)


class DraftChangesView(DraftBaseView):
    @extend_schema(
        operation_id="agents_draft_changes_list",
        parameters=PAGE,
        responses=whole_page_of(DraftChangeSerializer),
    )
    def get(self, request: Request, agent_id: UUID) -> Response:
        """List the changes of the draft and their authors, newest first."""
        pages = NewestFirst()
        found = pages.paginate_queryset(open_changes(self.find(agent_id)), request, self)
        return pages.get_paginated_response(list(DraftChangeSerializer(found, many=True).data))


class DraftUndoView(DraftBaseView):
    @extend_schema(
        operation_id="agents_draft_changes_undo",
        request=None,
        responses={200: DraftSerializer, 409: OpenApiResponse(description="Changed again since.")},
    )
    def post(self, request: Request, agent_id: UUID, change_id: UUID) -> Response:
        """Undo one change, unless the same part was changed again since."""
        return Response(undo(self.find(agent_id), change_id, author=self.author).as_json())


ASKED = inline_serializer(
    "BuilderAsked",
    {
        "agent": serializers.UUIDField(help_text="The agent that is built; new if none was named."),
        "session_id": serializers.UUIDField(help_text="The session with the builder."),
        "run_id": serializers.UUIDField(allow_null=True),
    },
)
PREVIEW = inline_serializer("DraftPreview", {"session_id": serializers.UUIDField()})


class BuilderInput(serializers.Serializer):
    message = TextField(max_length=MAX_TEXT_LENGTH, trim_whitespace=False)
    agent = serializers.UUIDField(required=False, allow_null=True)


class PreviewInput(serializers.Serializer):
    fresh = serializers.BooleanField(required=False, help_text="Start a new session.")


class BuilderView(APIView):
    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"POST": "build"}

    @extend_schema(operation_id="builder", request=BuilderInput, responses={202: ASKED})
    def post(self, request: Request) -> Response:
        """Tell the builder what an agent should do. Without `agent` it drafts a new one."""
        principal = principal_of(request)
        body = validate_body(request, BuilderInput)
        named = body.get("agent")
        agent = find_editable_agent(principal, named, "build") if named else None
        asked = ask_builder(
            principal, body["message"], agent, dedupe_key=client_dedupe_key(request)
        )
        answer = {"agent": asked.agent.pk, "session_id": asked.session_id, "run_id": asked.run_id}
        return Response(answer, status=202)


class DraftPreviewView(APIView):
    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"POST": "build"}

    @extend_schema(
        operation_id="agents_draft_preview", request=PreviewInput, responses={200: PREVIEW}
    )
    def post(self, request: Request, agent_id: UUID) -> Response:
        """Return a session that runs the draft as it is now. Tools that it newly allows still ask."""
        principal = principal_of(request)
        agent = find_editable_agent(principal, agent_id, "build")
        session = preview_session(
            principal, agent, fresh=validate_body(request, PreviewInput).get("fresh", False)
        )
        return Response({"session_id": session.pk})
