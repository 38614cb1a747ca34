"""Calls whose end nobody saw: a person says what became of them, or has them run again.

Each is done once, under the lane's lock. The log keeps the first result; every view takes the newest.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from config.faults import Conflict, SessionBusy, SessionEnded
from sessions_app.log import NewEvent, append_events
from sessions_app.models import Session, SessionEvent, ToolExecution
from sessions_app.resuming import result_event, resume
from sessions_app.statements import hold_lane
from tenants.access import Principal, authorise

State, Status = ToolExecution.State, Session.Status


@transaction.atomic
def verify(
    call: ToolExecution,
    principal: Principal,
    *,
    took_effect: bool,
    output: Any = None,
    note: str = "",
) -> ToolExecution:
    """Write down what a person found out about it. Nothing is run."""
    authorise(principal, "run", call)
    held, _ = _hold(call)
    if took_effect:
        held.state, held.error = State.COMPLETED, ""
        held.output = output if output is not None else f"It took effect. {note}".strip()
    else:
        held.state, held.output = State.ERROR, output
        held.error = f"It did not take effect. {note}".strip()
    held.finished_at = timezone.now()
    held.save(update_fields=["state", "output", "error", "finished_at"])
    if held.workflow_id:  # no model waits for it, and the log of its session never told of it
        return held
    found = result_event(held, late=True, verified_by=principal.name, note=note)
    append_events(held.session_id, [found], author_id=principal.user_id)
    return held


@transaction.atomic
def retry(
    call: ToolExecution, principal: Principal, *, note: str = ""
) -> tuple[ToolExecution, UUID]:
    """Have it run again, with the stored arguments, in a new run; the model is told the result."""
    authorise(principal, "run", call)
    held, status = _hold(call)
    if held.workflow_id:
        raise Conflict("A workflow made this call. Start the workflow again from this step.")
    if status == Status.TERMINATED:
        raise SessionEnded
    if status in {Status.RUNNING, Status.RESCHEDULING}:
        raise SessionBusy("The session is at work. Try again when it rests.")
    held.state, held.output, held.error = State.REQUESTED, None, ""
    held.started_at = held.finished_at = None
    held.retries += 1
    held.save(update_fields=["state", "output", "error", "started_at", "finished_at", "retries"])
    payload = {
        "tool_use_id": held.tool_use_id,
        "decision": "allow",
        "scope": "once",
        "note": note,
        "input": None,
        "again": True,
        "answered_by": principal.spoken_name,
    }
    event = NewEvent(type=SessionEvent.Type.USER_TOOL_CONFIRMATION, payload=payload)
    append_events(held.session_id, [event], author_id=principal.user_id)
    return held, resume(held.session, principal.user_id)


def _hold(call: ToolExecution) -> tuple[ToolExecution, str]:
    """The call as it is now, if its outcome is still unknown, and what its session does."""
    status = hold_lane(call.session_id).status
    held = ToolExecution.objects.select_related("session").get(pk=call.pk)
    if held.state != State.UNKNOWN:
        raise Conflict(
            f"This call is {held.state}. Only one whose outcome is unknown can be settled."
        )
    return held, status
