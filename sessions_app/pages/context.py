"""What the model sees now, as a page and as a panel beside the chat: by part, with the way to compact it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from config.faults import Conflict, Invalid, NotFound, SessionEnded
from sessions_app import runtime
from sessions_app.compaction.snapshots import undo
from sessions_app.doors import find_session
from sessions_app.models import ContextSnapshot
from sessions_app.pages.words import thousands
from sessions_app.preview import Part, Preview, preview
from tenants.authentication import principal_of
from tools_app.clip import clip_for_model

NAMES = {
    "instructions": "Instructions",
    "skills": "Skills",
    "pinned_memory": "Pinned memory",
    "recalled_memory": "Recalled memory",
    "summary": "Summary of earlier messages",
    "messages": "Messages",
    "tools": "Tools",
}
ROLES = {"user": "Person", "assistant": "Agent", "tool": "Tool"}
#: The bar's own units.
BAR = 1_000
SHOWN = 4_000


@dataclass(frozen=True, kw_only=True)
class Row:
    """One message or one tool of a part."""

    title: str
    text: str
    tokens: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part, as a stretch of the bar and as what it opens to."""

    name: str
    title: str
    tokens: str
    start: int
    width: int
    text: str
    rows: list[Row]


@never_cache
@require_safe
def chat_context(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id)
    viewer_id = principal.user_id
    seen = preview(session, viewer_id)
    snapshots = list(ContextSnapshot.objects.filter(session=session).order_by("-id")[:20])
    context = {
        "session": session,
        "seen": seen,
        "sections": sections_of(seen),
        "mark": min(BAR, seen.threshold * BAR // seen.window),
        "tokens": thousands(seen.tokens),
        "window": thousands(seen.window),
        "percent": round(100 * seen.tokens / seen.window),
        "active": next((one for one in snapshots if one.pk == seen.snapshot_id), None),
        "snapshots": snapshots,
        "may_run": principal.may("run") and session.archived_at is None,
    }
    panel = "panel" in request.GET
    return render(request, f"pages/chat/{'context_parts' if panel else 'context'}.html", context)


def sections_of(seen: Preview) -> list[Section]:
    """The parts side by side, in shares of the window."""
    sections: list[Section] = []
    start = 0
    for part in seen.parts:
        width = min(BAR - start, max(2 if part.tokens else 0, part.tokens * BAR // seen.window))
        is_text = isinstance(part.content, str)
        sections.append(
            Section(
                name=part.name,
                title=NAMES[part.name],
                tokens=thousands(part.tokens),
                start=start,
                width=width,
                text=part.content if is_text else "",
                rows=[] if is_text else _rows(part),
            )
        )
        start += width
    return sections


def _rows(part: Part) -> list[Row]:
    return [
        Row(
            title=one["name"] if part.name == "tools" else ROLES[one["role"]],
            text=one["description"] if part.name == "tools" else _said(one),
            tokens=thousands(one["tokens"]),
        )
        for one in part.content
    ]


def _said(message: dict[str, Any]) -> str:
    calls = [f"{call['name']} {orjson.dumps(call['input']).decode()}" for call in message["calls"]]
    results = [f"{result['name']}: {result['output']}" for result in message["results"]]
    return clip_for_model("\n".join(filter(None, [message["text"], *calls, *results])), SHOWN)


@require_POST
def chat_compact(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    find_session(principal, session_id, "run")
    return _back(request, session_id, lambda: runtime.compact(session_id, principal=principal))


@require_POST
def chat_undo(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Put back what a snapshot stands for."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run")
    user_id = principal.user_id
    return _back(request, session_id, lambda: undo(session, _snapshot_id(request), user_id))


def _snapshot_id(request: HttpRequest) -> UUID:
    try:
        return UUID(request.POST.get("snapshot", ""))
    except ValueError:
        raise Invalid("The form names no snapshot.") from None


def _back(request: HttpRequest, session_id: UUID, act: Callable[[], object]) -> HttpResponse:
    """Do it and show the conversation, with what is in the way if something is."""
    try:
        act()
    except (Conflict, Invalid, NotFound, SessionEnded) as fault:
        messages.error(request, fault.detail)
    return redirect("chat_session", session_id)
