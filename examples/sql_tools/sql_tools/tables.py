"""Renders the rows of a query as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def as_markdown(result: Mapping[str, Any]) -> str:
    lines = [_line(result["columns"]), _line("---" for _ in result["columns"])]
    lines += [_line(row) for row in result["rows"]]
    return "\n".join([*lines, *(["", "There are more rows."] if result["more"] else [])])


def _line(values: Iterable[Any]) -> str:
    cells = ("" if value is None else str(value) for value in values)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
