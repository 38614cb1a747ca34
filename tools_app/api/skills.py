"""REST: skills of the acting workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from agents.api.named_rows import NamedRowViewSet, documented
from tools_app.models import Skill
from tools_app.skills import LONGEST_BODY, NAME_PATTERN, change_skill, create_skill


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


@documented(
    list="The workspace's skills.",
    retrieve="One skill.",
    create="Write a skill. Agents know of it from their next answer on.",
    update="Write the skill anew; what is not named gets its default.",
    destroy="Delete the skill.",
)
class SkillViewSet(NamedRowViewSet):
    queryset = Skill.objects.all()
    serializer_class = SkillSerializer
    filterset_fields = ["name", "enabled"]

    def make(self, **given: Any) -> Skill:
        return create_skill(**given)

    def change(self, row: Skill, fields: Mapping[str, Any], *, replace: bool) -> Skill:
        return change_skill(row, fields, replace=replace)
