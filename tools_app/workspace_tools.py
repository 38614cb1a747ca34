"""The tools of a workspace: those of Switchyard, its custom tools, and those of its MCP servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any
from uuid import UUID

import orjson
from django.db import transaction
from pydantic import Field, StringConstraints, field_validator

from agents.providers.base import JSON
from core.db import lock_row, save_row
from core.validation import STORABLE, Input, read_change, read_input
from tenants.models import User
from tools_app.exceptions import ToolFailed
from tools_app.mcp.tools import mcp_tools, tools_of_revisions
from tools_app.models import CustomTool
from tools_app.registry import AnyArguments, Category, Permission, SchemaTool, Tool, registry
from tools_app.schemas import check_schema, first_argument


def tools_of_workspace(workspace_id: UUID | None) -> dict[str, Tool]:
    """Return every tool that agents of the workspace could be given, by name."""
    if not workspace_id:
        return _add_builtin({})
    return _add_builtin({**mcp_tools(workspace_id), **custom_tools(workspace_id)})


def tools_of_binding(custom: str | None, servers: str | None = None) -> dict[str, Tool]:
    """Return the same from custom tools and servers that were read already; see `Binding`."""
    own = parse_custom_tools(custom) if custom else {}
    theirs = tools_of_revisions(servers) if servers else {}
    return _add_builtin({**theirs, **own})


def _add_builtin(own: Mapping[str, Tool]) -> dict[str, Tool]:
    """Add the built-in tools last, so that no tool of a workspace can stand in for one of them."""
    return {**own, **registry}


TOOL_NAME_PATTERN = r"^[a-z][a-z0-9_]{1,59}$"
LONGEST_WAIT = 7 * 24 * 3600
WHAT = "A custom tool"


class CustomToolInput(Input):
    name: Annotated[str, StringConstraints(pattern=TOOL_NAME_PATTERN)]
    description: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000), STORABLE
    ]
    input_schema: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    #: The client that runs the tool decides for itself; Switchyard asks only where it is told to.
    permission: Permission = "always_allow"
    timeout_seconds: int = Field(default=300, ge=1, le=LONGEST_WAIT, strict=True)

    @field_validator("name")
    @classmethod
    def not_taken(cls, name: str) -> str:
        if name in registry:
            raise ValueError(f"{name} is the name of a built-in tool.")
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
    return save_row(made, read_input(CustomToolInput, fields), what=WHAT)


@transaction.atomic
def change_custom_tool(
    row: CustomTool, fields: Mapping[str, Any], *, replace: bool = False
) -> CustomTool:
    """Change the named fields, or with `replace` all of them. Pending calls keep waiting."""
    held = lock_row(row)
    return save_row(held, read_change(CustomToolInput, held, fields, replace=replace), what=WHAT)


def custom_tools(workspace_id: UUID) -> dict[str, Tool]:
    """Return the custom tools of a workspace by name."""
    rows = CustomTool.objects.for_workspace(workspace_id)
    return {row.name: _as_tool(row) for row in rows}


@lru_cache(maxsize=200)
def parse_custom_tools(packed: str) -> dict[str, Tool]:
    """Return the tools in a JSON list of rows. Callers share the result and must not change it."""
    rows = [CustomTool(**columns) for columns in orjson.loads(packed)]
    return {row.name: _as_tool(row) for row in rows}


def _as_tool(row: CustomTool) -> SchemaTool:
    schema: JSON = row.input_schema
    return SchemaTool(
        name=row.name,
        title=row.name.replace("_", " ").capitalize(),
        description=row.description,
        arguments=AnyArguments,
        category=Category.CUSTOM,
        ownership="custom",
        permission="always_allow" if row.permission == "always_allow" else "always_ask",
        seconds=row.timeout_seconds,
        subject=first_argument(schema),
        handler=_run_outside,
        schema=schema,
    )


# ── Tools of a client, for one run ───────────────────────────────────────────────────────────────

CLIENT_TOOL_NAME = r"^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$"


class ClientTool(Input):
    """A tool that the sender of a message runs itself, for the run of that message alone."""

    name: Annotated[str, StringConstraints(pattern=CLIENT_TOOL_NAME)]
    description: Annotated[str, StringConstraints(max_length=8_000), STORABLE] = ""
    input_schema: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )

    @field_validator("name")
    @classmethod
    def not_taken(cls, name: str) -> str:
        if name in registry:
            raise ValueError(f"{name} is the name of a built-in tool.")
        return name

    @field_validator("input_schema")
    @classmethod
    def usable(cls, schema: dict[str, Any]) -> dict[str, Any]:
        check_schema(schema)
        return schema


def client_tools(declared: Iterable[ClientTool]) -> dict[str, Tool]:
    """Return the tools that a client declared for a run, by name."""
    rows = [CustomTool(**one.model_dump()) for one in declared]
    return {row.name: _as_tool(row) for row in rows}


def _run_outside(arguments: AnyArguments, context: object) -> None:
    raise ToolFailed("This tool is run by a client, not by Switchyard.")
