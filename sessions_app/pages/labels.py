"""Formats durations, amounts, rules and events as texts for pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tools_app.policy.evaluation import TAINT

#: The owner of the policy at each layer.
OWNERS = {
    "workspace": "The workspace's policy",
    "agent": "The agent's policy",
    "environment": "The environment's policy",
    "session": "The session's policy",
    "subagent": "The policy of the session that started this one",
}
#: The prefix of a rule that a sub-agent inherits from the session that started it.
PARENT = "subagent: parent, "


def approval_reason(decided_by: str) -> str:
    """Return a sentence that names the rule that asks."""
    layer, named, rule = decided_by.removeprefix(PARENT).partition(": ")
    if not named:
        return f"Asked because of {decided_by}." if decided_by else ""
    if layer == "default":
        return "This tool always asks first, until a rule of the agent allows it."
    if layer == TAINT:
        return f"{rule[:1].upper()}{rule[1:]}."
    return f"{OWNERS.get(layer, layer)} asks: {rule}."


def duration(milliseconds: int | None) -> str:
    """Format a short duration: `340 ms`, `1.2 s`, `2 min 5 s`."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def long_duration(span: timedelta) -> str:
    """Format a duration of any length: `3 min 4 s`, `2 h 5 min`, `3 d 4 h`."""
    minutes = int(span.total_seconds()) // 60
    if minutes < 60:
        return duration(max(0, span // timedelta(milliseconds=1)))
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes // 60 % 24} h"


def dollars(amount: Decimal) -> str:
    """Format an amount: `$0`, `$0.0042`, `$12.50`."""
    if not amount:
        return "$0"
    return f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def thousands(count: int) -> str:
    """Format a count: `812`, `9.4k`, `61k`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 10_000 else f"{count / 1000:.0f}k"


def describe_resource(payload: Mapping[str, Any]) -> str:
    """Describe the change of a resource."""
    path, reason = payload.get("mount_path") or "a resource", payload.get("reason")
    if payload.get("attached") is False:
        return f"Took away {path}"
    if payload.get("status") == "failed":
        return f"Could not prepare {path}" + (f": {reason}" if reason else "")
    return f"Prepared {path}" if payload.get("status") == "ready" else f"Attached {path}"


def describe_terminal(payload: Mapping[str, Any]) -> str:
    """Describe who opened a terminal in the sandbox."""
    author = payload.get("opened_by")
    return f"{author} opened a terminal" if author else "A terminal was opened"


def describe_verdict(payload: Mapping[str, Any]) -> str:
    """Describe the grader's verdict on the outcome."""
    feedback = " ".join(str(payload.get("feedback") or "").split())
    if payload.get("status") == "met":
        return "Outcome met"
    if payload.get("status") != "not_met":
        reason = " ".join(str(payload.get("why") or "").split())
        return f"Outcome unclear: {reason}" if reason else "Outcome unclear"
    text = "Outcome not met"
    if payload.get("returned") is True:
        text = f"{text}, sent back {payload.get('returns')} of {payload.get('max_returns')}"
    return f"{text}: {feedback}" if feedback else text
