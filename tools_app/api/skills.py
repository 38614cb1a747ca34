"""REST: skills of the acting workspace."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.body import fields_in
from tenants.access import authorise
from tenants.api.base import WorkspaceViewSet
from tools_app.models import Skill
from tools_app.skills import LONGEST_BODY, NAME_PATTERN, change_skill, create_skill

TAKEN = OpenApiResponse(description="The name is taken.")


class SkillSerializer(serializers.Serializer):
    """A document that agents know by its description and load when they need it."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(NAME_PATTERN)
    description = serializers.CharField(
        max_length=300, help_text="One line, in the prompt of every agent that has the skill."
    )
    body = serializers.CharField(max_length=LONGEST_BODY, help_text="Markdown.")
    agents = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        help_text="The agents that have it. Empty: all of the workspace.",
    )
    enabled = serializers.BooleanField(required=False)
    updated_at = serializers.DateTimeField(read_only=True)
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


class SkillViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = Skill.objects.all()
    serializer_class = SkillSerializer
    filterset_fields = ["name", "enabled"]
    parser_classes = [JSONParser]
    verbs = {
        "create": "build",
        "update": "build",
        "partial_update": "build",
        "destroy": "build",
    }

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The workspace's skills."""
        return super().list(request, *args, **kwargs)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One skill."""
        return super().retrieve(request, *args, **kwargs)

    @extend_schema(responses={201: SkillSerializer, 409: TAKEN})
    def create(self, request: Request) -> Response:
        """Write a skill. Agents know of it from their next answer on."""
        made = create_skill(
            workspace_id=authorise(self.principal, "build"),
            fields=fields_in(request, SkillSerializer),
            created_by=self.principal.user,
        )
        return Response(SkillSerializer(made).data, status=201)

    @extend_schema(responses={200: SkillSerializer, 409: TAKEN})
    def update(self, request: Request, pk: str) -> Response:
        """Write the skill anew; what is not named gets its default."""
        return self._change(request, replace=True)

    @extend_schema(responses={200: SkillSerializer, 409: TAKEN})
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change what is named."""
        return self._change(request, replace=False)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the skill."""
        self.get_object().delete()
        return Response(status=204)

    def _change(self, request: Request, *, replace: bool) -> Response:
        skill: Skill = self.get_object()
        fields = fields_in(request, SkillSerializer)
        return Response(SkillSerializer(change_skill(skill, fields, replace=replace)).data)
