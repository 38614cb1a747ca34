"""Makes of what a server says it offers a list that agents can be given: checked and bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from tools_app.client_schema import check_schema, objects_in
from tools_app.clip import storable_json
from tools_app.mcp.words import plain

if TYPE_CHECKING:
    import mcp_types as types

MOST_TOOLS = 128
LARGEST_SCHEMA = 20_000
LARGEST_CATALOG = 300_000
#: In all schemas together, those that are left out too: each takes its time to be judged.
MOST_OBJECTS = 6_000
LONGEST_DESCRIPTION = 1_000
SHOWN_LEFT_OUT = 20
#: Letters that rules, events and vendors can all live with; `*` and `(` mean something in a rule.
NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}$")


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """The tools that can be offered, and why others cannot."""

    tools: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def catalog_of(
    listed: Iterable[types.Tool], *, complete: bool, clean: Callable[[str], str]
) -> Catalog:
    """Keep what can be used. A server's word on what is harmless is not kept."""
    kept: dict[str, dict[str, Any]] = {}
    left_out: list[str] = []
    size = objects = 0
    for tool in listed:
        objects += objects_in(tool.input_schema)
        if objects > MOST_OBJECTS:
            left_out.append("The rest is too large to be kept.")
            break
        if complaint := _complaint(tool, kept, clean):
            left_out.append(complaint)
            continue
        entry = storable_json(
            {
                "name": tool.name,
                "description": plain(clean(tool.description or ""), LONGEST_DESCRIPTION),
                "input_schema": tool.input_schema,
            }
        )
        size += len(orjson.dumps(entry))
        if size > LARGEST_CATALOG:
            left_out.append("The rest is too large to be kept.")
            break
        kept[tool.name] = entry
    if not complete:
        left_out.insert(0, f"It offers more than {MOST_TOOLS} tools; the others are not used.")
    return Catalog(tools=list(kept.values()), left_out=_few(left_out))


def _complaint(tool: types.Tool, kept: dict[str, Any], clean: Callable[[str], str]) -> str:
    """Why a tool cannot be offered, if so."""
    name = plain(clean(tool.name), 60)
    if not NAME.fullmatch(tool.name):
        return f"{name!r}: the name has letters that are not used in names of tools."
    if tool.name in kept:
        return f"{name}: two tools have this name."
    try:
        if len(orjson.dumps(tool.input_schema)) > LARGEST_SCHEMA:
            return f"{name}: its schema is larger than {LARGEST_SCHEMA:,} bytes."
        check_schema(tool.input_schema)
    except (ValueError, TypeError, RecursionError) as error:
        return f"{name}: {plain(clean(str(error)), 200)}"
    return ""


def _few(complaints: list[str]) -> list[str]:
    more = len(complaints) - SHOWN_LEFT_OUT
    return [*complaints[:SHOWN_LEFT_OUT], *([f"And {more} more."] if more > 0 else [])]
