"""REST: builder mode, and previews of a draft."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from sessions_app.api.body import body_of
from sessions_app.api.door import client_key
from sessions_app.building.sessions import ask_builder, find_built, preview_session
from sessions_app.payloads import LONGEST_TEXT
from tenants.access import Verb
from tenants.api.fields import TextField
from tenants.api.parsing import StrictJSONParser
from tenants.authentication import principal_of

ASKED = inline_serializer(
    "BuilderAsked",
    {
        "agent": serializers.UUIDField(help_text="The one that is built; new if none was named."),
        "session_id": serializers.UUIDField(help_text="The talk with the builder about it."),
        "run_id": serializers.UUIDField(allow_null=True),
    },
)
PREVIEW = inline_serializer("DraftPreview", {"session_id": serializers.UUIDField()})


class BuilderInput(serializers.Serializer):
    message = TextField(max_length=LONGEST_TEXT, trim_whitespace=False)
    agent = serializers.UUIDField(required=False, allow_null=True)


class PreviewInput(serializers.Serializer):
    fresh = serializers.BooleanField(required=False, help_text="Begin a new conversation.")


class BuilderView(APIView):
    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"POST": "build"}

    @extend_schema(operation_id="builder", request=BuilderInput, responses={202: ASKED})
    def post(self, request: Request) -> Response:
        """Tell the builder what an agent should be. Without `agent` it makes a draft of a new one."""
        principal = principal_of(request)
        body = body_of(request, BuilderInput)
        named = body.get("agent")
        agent = find_built(principal, named, "build") if named else None
        asked = ask_builder(principal, body["message"], agent, dedupe_key=client_key(request))
        answer = {"agent": asked.agent.pk, "session_id": asked.session_id, "run_id": asked.run_id}
        return Response(answer, status=202)


class DraftPreviewView(APIView):
    parser_classes = [StrictJSONParser]
    verbs: dict[str, Verb] = {"POST": "build"}

    @extend_schema(
        operation_id="agents_draft_preview", request=PreviewInput, responses={200: PREVIEW}
    )
    def post(self, request: Request, agent_id: UUID) -> Response:
        """A session that runs the draft as it is now. What the draft would newly allow still asks."""
        principal = principal_of(request)
        agent = find_built(principal, agent_id, "build")
        session = preview_session(
            principal, agent, fresh=body_of(request, PreviewInput).get("fresh", False)
        )
        return Response({"session_id": session.pk})
