"""The result of a call as a model reads it: text, structured content, and notes on the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import mcp_types as types

from tools_app.clip import clip_for_model, storable

#: What the ledger keeps of one result.
LARGEST_OUTPUT = 200_000


def text_of(result: types.CallToolResult, clean: Callable[[str], str]) -> str:
    """Everything the server said, as text of a bounded length.

    It is cleaned of secrets before it is cut: half a secret would not be found.
    """
    parts = list(_parts(result))
    if result.structured_content is not None and not _is_said(result, parts):
        parts.append(_json(result.structured_content))
    return storable(clip_for_model(clean("\n\n".join(parts)), LARGEST_OUTPUT)) or "(no output)"


def _is_said(result: types.CallToolResult, parts: list[str]) -> bool:
    """Most servers say structured content as text too; twice is too much."""
    wanted = result.structured_content
    alone = isinstance(wanted, dict) and list(wanted) == ["result"] and wanted["result"] in parts
    return alone or any(_parsed(part) == wanted for part in parts)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _parts(result: types.CallToolResult) -> Iterator[str]:
    for block in result.content:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent() | types.AudioContent():
                size = len(block.data) * 3 // 4
                yield f"[{block.type} {block.mime_type}, about {size:,} bytes, not shown]"
            case types.ResourceLink():
                yield f"[resource {block.name}: {block.uri}]"
            case types.EmbeddedResource():
                yield _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    return f"[resource {resource.uri}, about {len(resource.blob) * 3 // 4:,} bytes, not shown]"
