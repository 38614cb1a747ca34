"""REST: tools that a client runs itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from agents.api.named_rows import NamedRowViewSet, documented
from tools_app.api.serializers import PERMISSIONS
from tools_app.custom import (
    LONGEST_WAIT,
    NAME_PATTERN,
    change_custom_tool,
    create_custom_tool,
)
from tools_app.models import CustomTool


class CustomToolSerializer(serializers.Serializer):
    """A tool that a client runs. Each call goes out as an event and waits for its result."""

    id = serializers.UUIDField(read_only=True)
    name = serializers.RegexField(NAME_PATTERN)
    description = serializers.CharField(
        max_length=4_000, help_text="What it does and when to use it, for the model."
    )
    input_schema = serializers.DictField(
        required=False, help_text="A JSON Schema of an object. By default one without properties."
    )
    permission = serializers.ChoiceField(
        choices=PERMISSIONS,
        required=False,
        help_text="Whether a person is asked first when no policy says otherwise.",
    )
    timeout_seconds = serializers.IntegerField(
        min_value=1,
        max_value=LONGEST_WAIT,
        required=False,
        help_text="How long a call waits for its result; 300 if left out.",
    )
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


@documented(
    list="The workspace's own tools, the newest first.",
    retrieve="One tool of the workspace.",
    create="Define a tool. Agents whose policy lets them have it get it in their next run.",
    update="Define the tool anew; what is not named gets its default.",
    destroy="Forget the tool. Calls that are out already can still be answered.",
)
class CustomToolViewSet(NamedRowViewSet):
    queryset = CustomTool.objects.all()
    serializer_class = CustomToolSerializer
    filterset_fields = ["name"]

    def make(self, **given: Any) -> CustomTool:
        return create_custom_tool(**given)

    def change(self, row: CustomTool, fields: Mapping[str, Any], *, replace: bool) -> CustomTool:
        return change_custom_tool(row, fields, replace=replace)
