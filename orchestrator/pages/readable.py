"""A result as people read it: words as prose, what a command said as code, the rest by its names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse

from orchestrator.pages.words import shown

#: What goes deeper or on for longer is shown as JSON.
DEEPEST, MOST_PARTS = 4, 60
#: A longer text, or one of several lines, is prose.
LONGEST_PLAIN = 100
#: Texts under these names come from machines.
CODE_NAMES = {"output", "stdout", "stderr", "command", "code", "diff"}
#: What an object in a list is called by.
NAMES = ("name", "title", "agent", "path", "key")
#: Ids that lead to a page.
PAGES = {"session_id": "chat_session", "workflow_id": "workflow"}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A value under its name: exactly one of plain, prose, code and parts is said."""

    label: str = ""
    plain: str = ""
    prose: str = ""
    code: str = ""
    url: str = ""
    parts: tuple[Part, ...] = ()

    @property
    def is_block(self) -> bool:
        """Whether it needs the whole width."""
        return bool(self.prose or self.code or self.parts)


def readable(value: Any, *, label: str = "", key: str = "", depth: int = 0) -> Part:
    if isinstance(value, str):
        return _text(value, label=label, key=key)
    if not isinstance(value, dict | list) or not value:
        return Part(label=label, plain=_scalar(value))
    if isinstance(value, list) and (row := ", ".join(map(str, value))) and _is_plain(value, row):
        return Part(label=label, plain=row)
    if depth == DEEPEST or len(value) > MOST_PARTS:
        return Part(label=label, code=shown(value))
    is_command = isinstance(value, dict) and "exit_code" in value
    parts = tuple(
        readable(one, label=_label(name), key="output" if is_command else name, depth=depth + 1)
        for name, one in (value.items() if isinstance(value, dict) else _named(value))
        if one not in (None, "", [], {})
    )
    return Part(label=label, parts=parts) if parts else Part(label=label, plain="Nothing")


def _is_plain(values: list[Any], row: str) -> bool:
    scalars = all(isinstance(one, str | int | float) for one in values)
    return scalars and len(row) <= LONGEST_PLAIN and "\n" not in row


def _text(value: str, *, label: str, key: str) -> Part:
    if page := PAGES.get(key):
        try:
            return Part(label=label, plain=value, url=reverse(page, args=[UUID(value)]))
        except ValueError:
            return Part(label=label, plain=value)
    if len(value) <= LONGEST_PLAIN and "\n" not in value.strip():
        return Part(label=label, plain=value.strip())
    if key in CODE_NAMES:
        return Part(label=label, code=shown(value))
    return Part(label=label, prose=shown(value))


def _named(values: list[Any]) -> Iterable[tuple[str, Any]]:
    """The items of a list, each by the name that it has itself, else by its number."""
    for number, value in enumerate(values, start=1):
        of_it = value if isinstance(value, dict) else {}
        key = next((key for key in NAMES if of_it.get(key) and isinstance(of_it[key], str)), None)
        if key is None:
            yield str(number), value
        else:
            # Said once, as its name; but something has to be said of it.
            yield of_it[key], {k: v for k, v in of_it.items() if k != key} or of_it[key]


def _label(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return "Nothing" if value in (None, [], {}) else str(value)
