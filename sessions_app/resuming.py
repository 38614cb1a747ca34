"""Goes on with a session after an answer: writes it, and queues the run that takes it up."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import orjson

from sessions_app.log import NewEvent, append_events
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.statements import row
from sessions_app.wake import wake

E = SessionEvent.Type
BLOCKING = "SELECT (lane_lock(%s, NULL)).status, lane_blocking(%s)"


def result_event(call: ToolExecution, **facts: object) -> NewEvent:
    """What became of a call that no run has ended."""
    lasted = call.finished_at - call.started_at if call.finished_at and call.started_at else None
    payload = {
        "tool_use_id": call.tool_use_id,
        "name": call.name,
        "state": call.state,
        "output": call.output,
        "error": call.error,
        "duration_ms": round(lasted.total_seconds() * 1000) if lasted else None,
        **facts,
    }
    return NewEvent(type=E.AGENT_TOOL_RESULT, payload=payload)


def write_and_resume(
    session: Session, events: Sequence[NewEvent], author_id: UUID | None
) -> tuple[int, UUID | None]:
    """Write the answer; then name what still blocks, or queue the run that goes on.

    While the run itself is still on its way to park, it notices the answer by itself. A session
    that rests although a call waited has lost that call's run: its answer starts another one.
    """
    status, found = row(BLOCKING, [session.pk, session.pk])
    blocking = orjson.loads(found)
    first = append_events(session.pk, events, author_id=author_id) - len(events) + 1
    if status not in {Session.Status.REQUIRES_ACTION, Session.Status.IDLE}:
        return first, None
    if blocking:
        if status == Session.Status.REQUIRES_ACTION:
            rest = {"stop_reason": "requires_action", "blocking": blocking}
            append_events(session.pk, [NewEvent(type=E.STATUS_IDLE, payload=rest)])
        return first, None
    return first, resume(session, author_id)


def resume(session: Session, author_id: UUID | None) -> UUID:
    """The run that goes on, under the lane's lock: one that waits already takes up everything."""
    waiting = Run.objects.filter(session=session, status=Run.Status.QUEUED, resumes=True).first()
    run = waiting or Run.objects.create(
        workspace_id=session.workspace_id, session=session, created_by_id=author_id, resumes=True
    )
    wake(session.pk)
    return run.pk
