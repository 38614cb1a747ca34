"""Pages of a session's context: the tab of the session page, and the panel beside the chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from core.exceptions import Invalid
from sessions_app import runtime
from sessions_app.context.compaction.snapshots import undo_snapshot
from sessions_app.context.preview import ContextPart, Preview, preview
from sessions_app.models import ContextSnapshot, Session
from sessions_app.pages.chat import redirect_after
from sessions_app.pages.labels import thousands
from sessions_app.sessions import find_session
from tenants.authentication import principal_of
from tools_app.taint import clip_for_model

#: The width of a bar in its own units.
BAR_WIDTH = 1_000
#: The limits of one part on the page. The newest items are shown.
MAX_ITEMS, MAX_ITEM_LENGTH = 100, 8_000
#: Characters of a message in the panel.
MAX_MESSAGE_LENGTH = 4_000
PART_TITLES = {
    "instructions": "Instructions",
    "skills": "Skills",
    "more_tools": "List of more tools",
    "loaded_tools": "Loaded tools",
    "pinned_memory": "Pinned memory",
    "attached_resources": "Attached resources",
    "recalled_memory": "Beside the newest message",
    "summary": "Summary of earlier messages",
    "messages": "Messages",
    "tools": "Tools",
}
ROLES = {"user": "Person", "assistant": "Agent", "tool": "Tool"}


@dataclass(frozen=True, kw_only=True)
class Item:
    """A message, a tool or a document of a part."""

    name: str
    tokens: int | None
    text: str


@dataclass(frozen=True, kw_only=True)
class ShownPart:
    #: The part's name in code, which also selects its colour.
    kind: str
    name: str
    tokens: int
    words: str
    share: str
    x: int
    width: int
    items: list[Item]
    #: The number of items that are not shown.
    left_out: int


@dataclass(frozen=True, kw_only=True)
class Context:
    preview: Preview
    parts: list[ShownPart]
    tokens: str
    room: str
    used: str


def build_context(session: Session) -> Context:
    """Return what the model would see now, as parts of a bar that is the model's whole window."""
    current = preview(session)
    window = max(1, current.window, current.tokens)
    parts, x = [], 0.0
    for part in current.parts:
        width = BAR_WIDTH * part.tokens / window
        items = _items(part.content)
        parts.append(
            ShownPart(
                kind=part.name,
                name=part.name.replace("_", " ").capitalize(),
                tokens=part.tokens,
                words=f"{part.tokens:,}",
                share=percent(part.tokens, window),
                x=round(x),
                width=max(2, round(width)) if part.tokens else 0,
                items=items[-MAX_ITEMS:],
                left_out=max(0, len(items) - MAX_ITEMS),
            )
        )
        x += width
    return Context(
        preview=current,
        parts=parts,
        tokens=f"{current.tokens:,}",
        room=f"{current.window:,}",
        used=percent(current.tokens, window),
    )


def percent(count: int, whole: int) -> str:
    share = 100 * count / whole
    if 0 < share < 0.05:
        return "< 0.1 %"
    return f"{share:.1f} %" if share < 10 else f"{share:.0f} %"


def _items(content: Any) -> list[Item]:
    if isinstance(content, list):
        return [_item(entry) for entry in content]
    return [_item(content)] if content else []


def _item(content: Any) -> Item:
    if not isinstance(content, Mapping):
        return Item(name="", tokens=None, text=_text(content))
    name = content.get("role") or content.get("name") or content.get("path") or ""
    rest = {
        key: value
        for key, value in content.items()
        if value and key not in {"role", "name", "path", "tokens"}
    }
    plain = next(iter(rest.values())) if len(rest) == 1 else rest
    tokens = content.get("tokens")
    return Item(
        name=str(name),
        tokens=tokens if isinstance(tokens, int) else None,
        text=_text(plain) if rest else "",
    )


def _text(content: Any) -> str:
    whole = (
        content
        if isinstance(content, str)
        else orjson.dumps(content, option=orjson.OPT_INDENT_2, default=str).decode()
    )
    return whole if len(whole) <= MAX_ITEM_LENGTH else f"{whole[:MAX_ITEM_LENGTH]}…"


@dataclass(frozen=True, kw_only=True)
class ContextRow:
    """A message or a tool of a part, as the panel shows it."""

    title: str
    text: str
    tokens: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part in the panel: a stretch of the bar, and its content."""

    name: str
    title: str
    tokens: str
    start: int
    width: int
    text: str
    rows: list[ContextRow]
    #: What a change of the part sends anew, in words; empty if it only grows.
    resent: str
    notes: Sequence[str]


@never_cache
@require_safe
def chat_context(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id)
    current = preview(session, principal.user_id)
    snapshots = list(ContextSnapshot.objects.filter(session=session).order_by("-id")[:20])
    context = {
        "session": session,
        "seen": current,
        "sections": _sections(current),
        "mark": min(BAR_WIDTH, current.threshold * BAR_WIDTH // current.window),
        "tokens": thousands(current.tokens),
        "window": thousands(current.window),
        "percent": round(100 * current.tokens / current.window),
        "active": next((one for one in snapshots if one.pk == current.snapshot_id), None),
        "snapshots": snapshots,
        "may_run": principal.may("run") and session.archived_at is None,
    }
    panel = "panel" in request.GET
    return render(request, f"pages/chat/{'context_parts' if panel else 'context'}.html", context)


def _sections(current: Preview) -> list[Section]:
    sections: list[Section] = []
    start = 0
    for part in current.parts:
        share = part.tokens * BAR_WIDTH // current.window
        width = min(BAR_WIDTH - start, max(2 if part.tokens else 0, share))
        is_text = isinstance(part.content, str)
        sections.append(
            Section(
                name=part.name,
                title=PART_TITLES[part.name],
                tokens=thousands(part.tokens),
                start=start,
                width=width,
                text=part.content if is_text else "",
                rows=[] if is_text else _rows(part),
                resent=thousands(part.resent) if part.resent else "",
                notes=part.notes,
            )
        )
        start += width
    return sections


def _rows(part: ContextPart) -> list[ContextRow]:
    return [
        ContextRow(
            title=entry["name"] if part.name == "tools" else ROLES[entry["role"]],
            text=entry["description"] if part.name == "tools" else _message_text(entry),
            tokens=thousands(entry["tokens"]),
        )
        for entry in part.content
    ]


def _message_text(message: dict[str, Any]) -> str:
    calls = [f"{call['name']} {orjson.dumps(call['input']).decode()}" for call in message["calls"]]
    results = [f"{result['name']}: {result['output']}" for result in message["results"]]
    lines = filter(None, [message["text"], *calls, *results])
    return clip_for_model("\n".join(lines), MAX_MESSAGE_LENGTH)


@require_POST
def chat_compact(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    find_session(principal, session_id, "run")

    def compact() -> None:
        runtime.compact(session_id, principal=principal)

    return redirect_after(request, session_id, compact)


@require_POST
def chat_undo(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Undo the compaction that a snapshot stands for."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run")

    def undo() -> None:
        undo_snapshot(session, _snapshot_id(request), principal.user_id)

    return redirect_after(request, session_id, undo)


def _snapshot_id(request: HttpRequest) -> UUID:
    try:
        return UUID(request.POST.get("snapshot", ""))
    except ValueError:
        raise Invalid("The form names no snapshot.") from None
