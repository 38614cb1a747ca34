"""Knows the secrets that were revealed in this process, and takes them out of text.

What a server answers may hold the credential that it was sent. Whoever stores or shows such text
masks it first.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from threading import Lock
from typing import Any
from urllib.parse import quote
from uuid import UUID

MASK = "[secret]"
#: A shorter value would be found in every other word.
SHORTEST_MASKED = 6

_lock = Lock()
_revealed: defaultdict[UUID, frozenset[str]] = defaultdict(frozenset)


def remember(workspace_id: UUID, value: str) -> None:
    """From now on the value is masked in this workspace's texts."""
    if len(value) < SHORTEST_MASKED or value in _revealed[workspace_id]:
        return
    with _lock:
        _revealed[workspace_id] |= spellings(value)


def spellings(value: str) -> frozenset[str]:
    """The value as it is, and as JSON, an address or a Basic credential would write it."""
    encoded = base64.b64encode(value.encode()).decode().rstrip("=")
    found = {value, json.dumps(value)[1:-1], quote(value, safe=""), encoded}
    return frozenset(one for one in found if len(one) >= SHORTEST_MASKED)


def mask(workspace_id: UUID, text: str) -> str:
    """The text without any revealed secret of the workspace."""
    # The longest first: a secret may begin with another one.
    for value in sorted(_revealed.get(workspace_id, ()), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def mask_json(workspace_id: UUID, value: Any) -> Any:
    """The same for every text in a JSON value, its keys included."""
    match value:
        case str():
            return mask(workspace_id, value)
        case dict():
            return {
                mask(workspace_id, str(key)): mask_json(workspace_id, part)
                for key, part in value.items()
            }
        case list() | tuple():
            return [mask_json(workspace_id, part) for part in value]
        case _:
            return value
