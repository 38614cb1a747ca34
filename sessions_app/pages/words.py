"""Rules, spans and amounts in plain words, as lines, approvals and tables say them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

#: Whose policy a layer is.
OWNERS = {
    "workspace": "The workspace's policy",
    "agent": "The agent's policy",
    "environment": "The environment's policy",
    "session": "The session's policy",
    "subagent": "The policy of the session that started this one",
}
#: Before a rule that binds a sub-agent because it bound the session that started it.
PARENT = "subagent: parent, "


def why(decided_by: str) -> str:
    """Which rule asked, as a sentence; `approval.ts` says the same."""
    layer, named, rule = decided_by.removeprefix(PARENT).partition(": ")
    if not named:
        return f"Asked because of {decided_by}." if decided_by else ""
    if layer == "default":
        return "This tool always asks first, until a rule of the agent allows it."
    return f"{OWNERS.get(layer, layer)} asks: {rule}."


def duration(milliseconds: int | None) -> str:
    """A span of time with its unit: `340 ms`, `1.2 s`, `2 min 5 s`."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def lasting(span: timedelta) -> str:
    """A span that may be days: `3 min 4 s`, `2 h 5 min`, `3 d 4 h`."""
    minutes = int(span.total_seconds()) // 60
    if minutes < 60:
        return duration(max(0, span // timedelta(milliseconds=1)))
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes // 60 % 24} h"


def dollars(amount: Decimal) -> str:
    """Money as one reads it: nothing, a small share of a cent, or cents."""
    if not amount:
        return "$0"
    return f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def thousands(count: int) -> str:
    """A count as one reads it: `812`, `9.4k`, `61k`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 10_000 else f"{count / 1000:.0f}k"


def resource_words(payload: Mapping[str, Any]) -> str:
    """What happened to something that the session is given; `notes.ts` says the same."""
    path, reason = payload.get("mount_path") or "a resource", payload.get("reason")
    if payload.get("attached") is False:
        return f"Took away {path}"
    if payload.get("status") == "failed":
        return f"Could not prepare {path}" + (f": {reason}" if reason else "")
    return f"Prepared {path}" if payload.get("status") == "ready" else f"Attached {path}"


def terminal_words(payload: Mapping[str, Any]) -> str:
    """Who opened a shell in the session's sandbox; `notes.ts` says the same."""
    who = payload.get("opened_by")
    return f"{who} opened a terminal" if who else "A terminal was opened"


def verdict_words(payload: Mapping[str, Any]) -> str:
    """What the grader said of the outcome; `notes.ts` says the same."""
    feedback = " ".join(str(payload.get("feedback") or "").split())
    if payload.get("status") == "met":
        return "Outcome met"
    if payload.get("status") != "not_met":
        why = " ".join(str(payload.get("why") or "").split())
        return f"Outcome unclear: {why}" if why else "Outcome unclear"
    said = "Outcome not met"
    if payload.get("returned") is True:
        said = f"{said}, sent back {payload.get('returns')} of {payload.get('max_returns')}"
    return f"{said}: {feedback}" if feedback else said
