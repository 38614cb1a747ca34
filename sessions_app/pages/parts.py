"""The context of a session as a bar of parts, each of which opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sessions_app.models import Session
from sessions_app.preview import Preview, preview

WIDTH = 1000
#: Of one part; the newest are kept, as the model attends to them most.
MOST_ITEMS, LONGEST_ITEM = 100, 8_000


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing in a part: a message, a tool, a document."""

    name: str
    tokens: int | None
    text: str


@dataclass(frozen=True, kw_only=True)
class ShownPart:
    #: What it is called in code; its colour goes by it, here and beside the chat.
    kind: str
    name: str
    tokens: int
    words: str
    share: str
    x: int
    width: int
    items: list[Item]
    #: How many more there are than are shown.
    left_out: int


@dataclass(frozen=True, kw_only=True)
class Context:
    preview: Preview
    parts: list[ShownPart]
    tokens: str
    room: str
    used: str


def context_of(session: Session) -> Context:
    """What the model would see now. The bar is the model's whole window."""
    seen = preview(session)
    window = max(1, seen.window, seen.tokens)
    parts, x = [], 0.0
    for part in seen.parts:
        width = WIDTH * part.tokens / window
        items = items_of(part.content)
        parts.append(
            ShownPart(
                kind=part.name,
                name=part.name.replace("_", " ").capitalize(),
                tokens=part.tokens,
                words=f"{part.tokens:,}",
                share=percent(part.tokens, window),
                x=round(x),
                width=max(2, round(width)) if part.tokens else 0,
                items=items[-MOST_ITEMS:],
                left_out=max(0, len(items) - MOST_ITEMS),
            )
        )
        x += width
    return Context(
        preview=seen,
        parts=parts,
        tokens=f"{seen.tokens:,}",
        room=f"{seen.window:,}",
        used=percent(seen.tokens, window),
    )


def percent(count: int, whole: int) -> str:
    share = 100 * count / whole
    if 0 < share < 0.05:
        return "< 0.1 %"
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def items_of(content: Any) -> list[Item]:
    """Whatever a part holds, as a list of texts."""
    if isinstance(content, list):
        return [_item(one) for one in content]
    return [_item(content)] if content else []


def _item(content: Any) -> Item:
    if not isinstance(content, Mapping):
        return Item(name="", tokens=None, text=_text(content))
    named = content.get("role") or content.get("name") or content.get("path") or ""
    rest = {
        key: value
        for key, value in content.items()
        if value and key not in {"role", "name", "path", "tokens"}
    }
    plain = next(iter(rest.values())) if len(rest) == 1 else rest
    tokens = content.get("tokens")
    return Item(
        name=str(named),
        tokens=tokens if isinstance(tokens, int) else None,
        text=_text(plain) if rest else "",
    )


def _text(content: Any) -> str:
    whole = (
        content
        if isinstance(content, str)
        else orjson.dumps(content, option=orjson.OPT_INDENT_2, default=str).decode()
    )
    return whole if len(whole) <= LONGEST_ITEM else f"{whole[:LONGEST_ITEM]}…"
