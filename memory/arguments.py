"""What the memory tools are told."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from memory.paths import LEARNINGS, MAIN
from memory.recall import LONGEST_QUERY, MOST_HITS
from tools_app.registry import Arguments

LONGEST_CONTENT = 100_000

Path = Annotated[
    str,
    Field(
        min_length=1,
        max_length=400,
        description=f"Such as {MAIN}, {LEARNINGS}deploying.md, session/plan.md or user/taste.md.",
    ),
]
Content = Annotated[str, Field(max_length=LONGEST_CONTENT, description="Markdown.")]


class MemorySearch(Arguments):
    query: str = Field(
        min_length=1, max_length=LONGEST_QUERY, description="A question, or a few words."
    )
    limit: int = Field(
        default=8, ge=1, le=MOST_HITS, description="The most results, 8 if left out."
    )


class MemoryGet(Arguments):
    path: Path


class MemoryForget(Arguments):
    path: Path


class MemoryList(Arguments):
    prefix: str = Field(
        default="", max_length=400, description=f"Only paths that begin so, such as {LEARNINGS}."
    )


class MemoryStore(Arguments):
    path: Path
    content: Content


class MemoryUpdate(Arguments):
    path: Path
    content: str | None = Field(
        default=None, max_length=LONGEST_CONTENT, description="The whole new text, or:"
    )
    old: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST_CONTENT,
        description="text to replace, which occurs once,",
    )
    new: str = Field(
        default="", max_length=LONGEST_CONTENT, description="and the text to put in its place."
    )
    expected_hash: str | None = Field(
        default=None,
        max_length=64,
        description="The hash that memory_get showed: refuse if the text has changed since.",
    )


class MemoryAppend(Arguments):
    content: str = Field(min_length=1, max_length=20_000, description="Lines of Markdown to add.")
    path: str = Field(
        default="", max_length=400, description="The document; today's log if left out."
    )
