"""One event of every type, with a realistic payload."""

from __future__ import annotations

from typing import Any

from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent

E = SessionEvent.Type
CALL = {"tool_use_id": "tu_all", "name": "exec", "input": {"command": "make"}}
PAYLOADS: dict[SessionEvent.Type, dict[str, Any]] = {
    E.USER_MESSAGE: {"text": "Hello.", "attachments": [{"name": "a.txt", "path": "uploads/a.txt"}]},
    E.USER_INTERRUPT: {"note": "Stop."},
    E.AGENT_MESSAGE: {"text": "Hello.", "model": "demo", "usage": {"input_tokens": 4}},
    E.AGENT_TOOL_USE: {**CALL, "ownership": "managed", "decision": "ask", "decided_by": "a rule"},
    E.USER_TOOL_CONFIRMATION: {"tool_use_id": "tu_all", "decision": "allow", "note": "Fine."},
    E.AGENT_TOOL_RESULT: {**CALL, "state": "error", "output": "out", "error": "It broke."},
    E.AGENT_CUSTOM_TOOL_USE: {"tool_use_id": "tu_own", "name": "mine", "input": {"a": "b"}},
    E.USER_CUSTOM_TOOL_RESULT: {"tool_use_id": "tu_own", "output": "done", "is_error": False},
    E.STATUS_CHANGED: {"from": "idle", "to": "running", "reason": "woken"},
    E.STATUS_IDLE: {"stop_reason": "end_turn", "blocking": []},
    E.ERROR: {"code": "provider_failed", "message": "It is gone.", "retryable": True},
}


def every_event(session: Session) -> None:
    append_events(session.pk, [NewEvent(type=t, payload=p) for t, p in PAYLOADS.items()])
