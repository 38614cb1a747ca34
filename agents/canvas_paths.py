"""The words by which a canvas names what is known: `input.city`, `nodes.fetch.output.title`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A node's id may hold dots, colons and dashes, and so may a path.
PATH = r"[A-Za-z_][A-Za-z0-9_.:-]*"
LONGEST_PATH = 300
_INPUT = re.compile(r"input(\.[A-Za-z0-9_:-]+)*")
_REST = re.compile(r"(\.[A-Za-z0-9_:-]+)*")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a run was given, and what its nodes have answered so far."""

    input: Any = None
    outputs: Mapping[str, Any] = field(default_factory=dict)


def node_in(path: str, ids: Collection[str]) -> str | None:
    """The node that a path names. Of two that fit, the longer id is meant."""
    fit = [one for one in ids if _rest_after(path, one) is not None]
    return max(fit, key=len, default=None)


def is_input(path: str) -> bool:
    return len(path) <= LONGEST_PATH and _INPUT.fullmatch(path) is not None


def look_up(path: str, facts: Facts) -> Any:
    """What stands there; None when there is nothing."""
    if is_input(path):
        return _walk(facts.input, path.split(".")[1:])
    node = node_in(path, facts.outputs)
    if node is None:
        return None
    return _walk(facts.outputs[node], (_rest_after(path, node) or "").split(".")[1:])


def _rest_after(path: str, node: str) -> str | None:
    """What follows `nodes.ID.output`, if the path begins so."""
    begin = f"nodes.{node}.output"
    if not path.startswith(begin) or len(path) > LONGEST_PATH:
        return None
    rest = path[len(begin) :]
    return rest if _REST.fullmatch(rest) else None


def _walk(value: Any, names: list[str]) -> Any:
    for name in names:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 7:
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value
