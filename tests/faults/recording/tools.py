"""The tool `record`: neither read-only nor idempotent; it appends each effect to a file."""

from __future__ import annotations

from django.conf import settings
from pydantic import BaseModel

from tools_app.registry import Category, ToolContext, tool


class Record(BaseModel):
    text: str


@tool(category=Category.TIME)
def record(arguments: Record, context: ToolContext) -> str:
    """Record an effect that cannot be undone."""
    with (settings.DATA_DIR / "effects").open("a") as file:
        file.write(f"{arguments.text}\n")
    return f"recorded {arguments.text}"
