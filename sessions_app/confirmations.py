"""Answers that a waiting call needs: a person's yes or no, or a program's result.

An answer is taken exactly once. When nothing else blocks the session, a run goes on from it.
"""

from __future__ import annotations

from uuid import UUID

import orjson
from django.db import transaction
from django.utils import timezone

from config.faults import NotFound, NothingToAnswer
from sessions_app.log import NewEvent, append_events
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.payloads import CustomToolResult, ToolConfirmation
from sessions_app.statements import row
from sessions_app.wake import wake

E, State = SessionEvent.Type, ToolExecution.State
BLOCKING = "SELECT (lane_lock(%s, NULL)).status, lane_blocking(%s)"


@transaction.atomic
def confirm(
    session: Session, answer: ToolConfirmation, author_id: UUID | None
) -> tuple[int, UUID | None]:
    """Let a call run, with the arguments as stored or as edited, or refuse it."""
    call = _waiting(session, answer.tool_use_id, State.AWAITING_APPROVAL)
    events = [NewEvent(type=E.USER_TOOL_CONFIRMATION, payload=answer.model_dump(mode="json"))]
    if answer.decision == "allow":
        call.state = State.REQUESTED
        call.input = answer.input if answer.input is not None else call.input
    else:
        reason = (
            f"A person refused: {answer.note}" if answer.note else "A person refused this call."
        )
        call.state, call.error, call.finished_at = State.DENIED, reason, timezone.now()
        events.append(_result(call))
    call.save(update_fields=["state", "input", "error", "finished_at"])
    return _write_and_resume(session, events, author_id)


@transaction.atomic
def answer_custom(
    session: Session, answer: CustomToolResult, author_id: UUID | None
) -> tuple[int, UUID | None]:
    """Take the result of a tool that the client runs itself."""
    call = _waiting(session, answer.tool_use_id, State.RUNNING)
    if call.ownership != "custom":
        raise NothingToAnswer("This call is run by Switchyard itself.")
    call.state = State.ERROR if answer.is_error else State.COMPLETED
    call.output, call.finished_at = answer.output, timezone.now()
    call.error = str(answer.output) if answer.is_error else ""
    call.save(update_fields=["state", "output", "error", "finished_at"])
    event = NewEvent(type=E.USER_CUSTOM_TOOL_RESULT, payload=answer.model_dump(mode="json"))
    return _write_and_resume(session, [event, _result(call)], author_id)


@transaction.atomic
def give_up_custom(session: Session, tool_use_id: str) -> bool:
    """End a call whose client did not answer in time. False: it was answered after all."""
    try:
        call = _waiting(session, tool_use_id, State.RUNNING)
    except NothingToAnswer:
        return False
    call.state, call.finished_at = State.ERROR, timezone.now()
    call.error = "The client that runs this tool did not answer in time."
    call.save(update_fields=["state", "error", "finished_at"])
    _write_and_resume(session, [_result(call)], None)
    return True


def _waiting(session: Session, tool_use_id: str, state: str) -> ToolExecution:
    """The call, under the lane's lock, if it still waits for this kind of answer."""
    row("SELECT (lane_lock(%s, NULL)).lane_epoch", [session.pk])
    call = ToolExecution.objects.filter(session=session, tool_use_id=tool_use_id).first()
    if call is None:
        raise NotFound(f"This session has no call {tool_use_id!r}.")
    if call.state != state:
        raise NothingToAnswer(f"The call {tool_use_id} is {call.state} and waits for no answer.")
    return call


def _result(call: ToolExecution) -> NewEvent:
    payload = {
        "tool_use_id": call.tool_use_id,
        "name": call.name,
        "state": call.state,
        "output": call.output,
        "error": call.error,
        "duration_ms": None,
    }
    return NewEvent(type=E.AGENT_TOOL_RESULT, payload=payload)


def _write_and_resume(
    session: Session, events: list[NewEvent], author_id: UUID | None
) -> tuple[int, UUID | None]:
    """Write the answer; then name what still blocks, or queue the run that goes on.

    While the run itself is still on its way to park, it notices the answer by itself.
    """
    status, found = row(BLOCKING, [session.pk, session.pk])
    blocking = orjson.loads(found)
    first = append_events(session.pk, events, author_id=author_id) - len(events) + 1
    if status != Session.Status.REQUIRES_ACTION:
        return first, None
    if blocking:
        rest = {"stop_reason": "requires_action", "blocking": blocking}
        append_events(session.pk, [NewEvent(type=E.STATUS_IDLE, payload=rest)])
        return first, None
    run = Run.objects.create(
        workspace_id=session.workspace_id, session=session, created_by_id=author_id, resumes=True
    )
    wake(session.pk)
    return first, run.pk
