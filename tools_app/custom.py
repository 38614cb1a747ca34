"""Custom tools: defined by a workspace, offered to its agents, run by whoever listens outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

import orjson
from django.db import transaction
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from agents.inputs import STORABLE, Input, read_input
from agents.named_rows import hold, read_change, write
from agents.providers.base import JSON, ToolSpec
from config.faults import ToolFailed
from tenants.models import User
from tools_app.client_schema import check_arguments, check_schema
from tools_app.context import ToolContext
from tools_app.models import CustomTool
from tools_app.registry import Category, Permission, Tool, registry
from tools_app.schema import plain_schema

NAME_PATTERN = r"^[a-z][a-z0-9_]{1,59}$"
LONGEST_WAIT = 7 * 24 * 3600
WHAT = "A custom tool"


class CustomToolInput(Input):
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    description: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), STORABLE
    ]
    input_schema: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    #: The client that runs it decides for itself; the house asks only where it is told to.
    permission: Permission = "always_allow"
    timeout_seconds: int = Field(default=300, ge=1, le=LONGEST_WAIT, strict=True)

    @field_validator("name")
    @classmethod
    def not_taken(cls, name: str) -> str:
        if name in registry:
            raise ValueError(f"{name} is a tool of the product.")
        return name

    @field_validator("input_schema")
    @classmethod
    def usable(cls, schema: dict[str, Any]) -> dict[str, Any]:
        check_schema(schema)
        return schema


def create_custom_tool(
    *, workspace_id: UUID, fields: Mapping[str, Any], created_by: User | None = None
) -> CustomTool:
    made = CustomTool(workspace_id=workspace_id, created_by=created_by)
    return write(made, read_input(CustomToolInput, fields), what=WHAT)


@transaction.atomic
def change_custom_tool(
    tool: CustomTool, changes: Mapping[str, Any], *, replace: bool = False
) -> CustomTool:
    """Change what is named, or everything. Calls that are out already keep waiting."""
    held = hold(tool)
    return write(held, read_change(CustomToolInput, held, changes, replace=replace), what=WHAT)


class Anything(BaseModel):
    """Arguments that a JSON Schema has judged."""

    model_config = ConfigDict(extra="allow", frozen=True)


@dataclass(frozen=True, kw_only=True)
class ClientTool(Tool):
    """A tool whose arguments are described by a schema and not by a model."""

    schema: JSON = field(hash=False)

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=self.name, description=self.description, json_schema=plain_schema(self.schema)
        )

    def _fitting(self, raw: JSON) -> BaseModel:
        check_arguments(self.name, self.schema, raw)
        return Anything.model_validate(raw)


def custom_tools(workspace_id: UUID) -> dict[str, Tool]:
    """The workspace's own tools, by name."""
    rows = CustomTool.objects.for_workspace(workspace_id)
    return {row.name: _as_tool(row) for row in rows}


@lru_cache(maxsize=200)
def custom_tools_in(packed: str) -> dict[str, Tool]:
    """The tools in a JSON list of rows. Shared by all who read the same: not to be changed."""
    rows = [CustomTool(**columns) for columns in orjson.loads(packed)]
    return {row.name: _as_tool(row) for row in rows}


def _as_tool(row: CustomTool) -> ClientTool:
    schema: JSON = row.input_schema
    return ClientTool(
        name=row.name,
        title=row.name.replace("_", " ").capitalize(),
        description=row.description,
        arguments=Anything,
        category=Category.CUSTOM,
        ownership="custom",
        permission="always_allow" if row.permission == "always_allow" else "always_ask",
        seconds=row.timeout_seconds,
        # The database keeps the order of what is required, but not that of properties.
        subject=next(iter([*schema.get("required", []), *schema.get("properties", {})]), ""),
        handler=_run_outside,
        schema=schema,
    )


def _run_outside(arguments: Anything, context: ToolContext) -> None:
    raise ToolFailed("This tool is run by a client, not by Switchyard.")
