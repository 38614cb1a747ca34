"""Statuses, kinds and spans of time in plain words, as the pages of workflows say them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

#: Which lamp stands for which status, and its word.
STATUSES = {
    "running": ("is-running", "Running"),
    "waiting_approval": ("is-waiting", "Needs you"),
    "waiting": ("is-waiting", "Waiting"),
    "queued": ("", "Queued"),
    "paused": ("", "Paused"),
    "complete": ("is-done", "Complete"),
    "errored": ("is-failed", "Failed"),
    "terminated": ("", "Terminated"),
}
STEP_STATUSES = {
    "running": ("is-running", "Running"),
    "retrying": ("is-waiting", "Trying again"),
    "waiting": ("is-waiting", "Waiting"),
    "complete": ("is-done", "Done"),
    "errored": ("is-failed", "Failed"),
}
#: How one of several attempts at a step went.
ATTEMPTS = {
    **{status: word.lower() for status, (_, word) in STEP_STATUSES.items()},
    "timed_out": "took too long",
    "lost": "its worker was lost",
}
KINDS = {
    "do": "",
    "sleep": "Sleep",
    "wait_for_event": "Waits for an event",
    "wait_for_approval": "Asks a person",
    "run_session": "Agent",
    "spawn": "Workflow",
    "rollback": "Undo",
}
SHOWN = 4_000


def span(time: timedelta | None) -> str:
    """A duration that is read at a glance."""
    if time is None:
        return ""
    seconds = max(time.total_seconds(), 0)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def shown(value: Any) -> str:
    """A result as text: words as they are, the rest as JSON, not more than a page can bear."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
