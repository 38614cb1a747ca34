"""What viewers are sent: one frame per stored event, deltas in between, acknowledgements and errors."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from sessions_app.models import SessionEvent, ToolExecution
from tenants.ids import made_at

Body: TypeAlias = dict[str, Any]
#: What a client calls something that it sends; given back as it came.
ClientId: TypeAlias = str | int | None
Type = SessionEvent.Type

#: A call that was only asked for shows as pending.
SHOWN_STATE = {ToolExecution.State.REQUESTED.value: "pending"}
STATE_OF_DECISION = {"allow": "pending", "ask": "awaiting_approval", "deny": "denied"}


def frame_of(event: SessionEvent) -> Body:
    """The frame of a stored event. Payload fields without a place of their own go to `metadata`."""
    payload = dict(event.payload)
    match Type(event.type):
        case Type.AGENT_MESSAGE:
            frame = {"type": "assistant", "content": payload.pop("text", "")}
        case Type.AGENT_TOOL_USE | Type.AGENT_CUSTOM_TOOL_USE:
            frame = tool_use(payload)
        case Type.AGENT_TOOL_RESULT:
            frame = tool_result(payload)
        case Type.USER_TOOL_CONFIRMATION:
            frame = tool_confirmation(payload)
        case Type.USER_CUSTOM_TOOL_RESULT:
            frame = custom_tool_result(payload)
        case Type.ERROR:
            frame = {"type": "error", "phase": "error", "error": payload.pop("message", "")}
        case Type.STATUS_IDLE:
            frame = {"type": "lifecycle", "phase": "end"}
        case Type.STATUS_CHANGED if payload.get("to") == "running":
            frame = {"type": "lifecycle", "phase": "start"}
        case (
            Type.STATUS_CHANGED
            | Type.USER_MESSAGE
            | Type.USER_MESSAGE_EDITED
            | Type.USER_MESSAGE_WITHDRAWN
            | Type.USER_INTERRUPT
            | Type.CONTEXT_COMPACTED
            | Type.CHILD_CREATED
            | Type.CHILD_IDLE
            | Type.RESOURCE_ATTACHED
            | Type.OUTCOME_JUDGED
            | Type.TERMINAL_OPENED
        ):
            frame = {"type": "lifecycle"}
            payload = {"event": event_body(event)}
    return {**frame, "metadata": {**payload, **origin(event)}, "seq": event.seq}


def tool_use(payload: Body) -> Body:
    return {
        "type": "tool",
        "tool_name": payload.pop("name", ""),
        "tool_state": STATE_OF_DECISION.get(payload.get("decision", "allow"), "pending"),
        "tool_input": payload.pop("input", {}),
    }


def tool_result(payload: Body) -> Body:
    state = payload.pop("state", "completed")
    frame = {
        "type": "tool",
        "tool_name": payload.pop("name", ""),
        "tool_state": SHOWN_STATE.get(state, state),
        "tool_output": payload.pop("output", None),
    }
    return with_error(frame, payload.pop("error", None))


def tool_confirmation(payload: Body) -> Body:
    frame: Body = {
        "type": "tool",
        "tool_state": "denied" if payload.get("decision") == "deny" else "pending",
    }
    if name := payload.pop("name", None):
        frame["tool_name"] = name
    if (changed := payload.pop("input", None)) is not None:
        frame["tool_input"] = changed
    return frame


def custom_tool_result(payload: Body) -> Body:
    output, failed = payload.pop("output", None), payload.get("is_error")
    frame: Body = {
        "type": "tool",
        "tool_state": "error" if failed else "completed",
        "tool_output": output,
    }
    if name := payload.pop("name", None):
        frame["tool_name"] = name
    return with_error(frame, output if failed else None)


def with_error(frame: Body, error: object) -> Body:
    return {**frame, "error": error if isinstance(error, str) else str(error)} if error else frame


def author_of(event: SessionEvent) -> str:
    """The name of the person who wrote it; nothing for what agents and the server write."""
    return event.created_by.display_name if event.created_by else ""


def origin(event: SessionEvent) -> Body:
    """Which event a frame shows, and who wrote it."""
    author = author_of(event)
    return {
        **({"author": author} if author else {}),
        "session_id": str(event.session_id),
        "run_id": event.run_id and str(event.run_id),
        "event_id": str(event.pk),
        "event_type": event.type,
        "created_at": at(event.created_at),
    }


def event_body(event: SessionEvent) -> Body:
    """An event as every door shows it, with the run that took it."""
    return {
        "id": str(event.pk),
        "session_id": str(event.session_id),
        "seq": event.seq,
        "type": event.type,
        "payload": event.payload,
        "run_id": event.run_id and str(event.run_id),
        "created_at": at(event.created_at),
        "processed_at": event.processed_at and at(event.processed_at),
        "processed_run_id": event.processed_run_id and str(event.processed_run_id),
    }


def at(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def delta_frame(
    *, session_id: UUID, event_id: UUID, run_id: UUID | None, offset: int, text: str
) -> Body:
    """New text of an event that is not stored yet. `offset` counts code points."""
    return {
        "type": "assistant",
        "content": text,
        "metadata": {
            "session_id": str(session_id),
            "run_id": run_id and str(run_id),
            "event_id": str(event_id),
            "event_type": Type.AGENT_MESSAGE.value,
            "created_at": at(made_at(event_id)),
            "offset": offset,
        },
        "seq": None,
    }


def output_frame(
    *,
    session_id: UUID,
    run_id: UUID | None,
    tool_use_id: str,
    name: str,
    offset: int,
    text: str,
) -> Body:
    """New output of a call that still runs; its result replaces it. `offset` counts code points."""
    return {
        "type": "tool",
        "tool_name": name,
        "tool_state": "running",
        "tool_output": text,
        "metadata": {
            "session_id": str(session_id),
            "run_id": run_id and str(run_id),
            "tool_use_id": tool_use_id,
            "offset": offset,
        },
        "seq": None,
    }


def ack_frame(*, id: ClientId, **facts: Any) -> Body:
    """Says that what the client sent under this id is in the log."""
    return {"type": "ack", "id": id, **facts}


def error_frame(*, code: str, error: str, id: ClientId = None) -> Body:
    """Says why what the client sent was not taken. The socket stays usable."""
    return {"type": "error", "id": id, "code": code, "error": error, "metadata": {}, "seq": None}
