"""What the chat island begins with: the frames of the page's events, and the facts around them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson
from django.urls import reverse

from sessions_app.frames import Body, delta_frame, frame_of
from sessions_app.models import SessionEvent
from sessions_app.pages.lines import SHOWN
from sessions_app.pages.window import Window
from sessions_app.queue import Queued
from sessions_app.reader import Answer
from sessions_app.tool_words import all_words
from sessions_app.uploads import LARGEST_FILE
from tenants.access import Principal


def opening(
    window: Window, draft: Answer | None, queue: list[Queued], principal: Principal
) -> dict[str, Any]:
    """Everything the island needs to go on from where the page was written."""
    session = window.session
    frames = [seen(event) for event in window.events]
    if draft and draft.text:
        frames.append(
            delta_frame(
                session_id=session.pk,
                event_id=draft.event_id,
                run_id=draft.run_id,
                offset=0,
                text=draft.text,
            )
        )
    return {
        "session_id": str(session.pk),
        "agent": session.agent_version.name,
        "status": session.status,
        "title": session.title,
        "first_seq": window.first_seq,
        "last_seq": window.last_seq,
        "cost": str(session.cost),
        "tokens": session.input_tokens + session.output_tokens,
        "frames": frames,
        "queue": [_entry(one) for one in queue],
        "tools": all_words(),
        "may_run": principal.may("run") and session.archived_at is None,
        "may_admin": principal.may("admin"),
        "api": reverse("session-detail", args=[session.pk]),
        "runs": reverse("run-list"),
        "approvals": reverse("approval-list"),
        "executions": reverse("execution-list"),
        "largest_file": LARGEST_FILE,
    }


def _entry(queued: Queued) -> dict[str, Any]:
    return {**asdict(queued), "run_id": str(queued.run_id), "created_at": None}


def seen(event: SessionEvent) -> Body:
    """The frame of an event as sockets send it, with less of its bulk."""
    frame = frame_of(event)
    if (clipped := _clipped(frame.get("tool_output"))) is not None:
        frame["tool_output"] = clipped
        frame["metadata"]["clipped"] = True
    return frame


def _clipped(output: object) -> str | None:
    """The beginning of a result that is too long for a page; the island asks for the rest."""
    if output is None:
        return None
    text = output if isinstance(output, str) else orjson.dumps(output, default=str).decode()
    return text[:SHOWN] if len(text) > SHOWN else None
