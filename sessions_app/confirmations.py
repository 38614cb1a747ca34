"""Answers that a waiting call needs: a person's yes or no, or a program's result.

An answer is taken exactly once. When nothing else blocks the session, a run goes on from it.
"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from config.faults import NotFound, NothingToAnswer
from sessions_app.approvals import Answer, resolve
from sessions_app.asking import question
from sessions_app.log import NewEvent
from sessions_app.models import Approval, Session, SessionEvent, ToolExecution
from sessions_app.payloads import CustomToolResult, ToolConfirmation
from sessions_app.resuming import result_event, write_and_resume
from sessions_app.statements import hold_lane
from tenants.access import Principal

E, State = SessionEvent.Type, ToolExecution.State


def confirm(
    session: Session, said: ToolConfirmation, principal: Principal, dedupe_key: str | None = None
) -> tuple[int, UUID | None]:
    """Let a call run, with the arguments as stored or as edited, or refuse it."""
    call = _call(session, said.tool_use_id)
    approval = Approval.objects.filter(execution=call).first() or _asked_late(call, session)
    answer = Answer(decision=said.decision, scope=said.scope, note=said.note, input=said.input)
    resolved = resolve(approval, answer, principal, dedupe_key=dedupe_key)
    if resolved.seq is None:
        raise AssertionError("the answer to a call is an event")
    return resolved.seq, resolved.run_id


def _asked_late(call: ToolExecution, session: Session) -> Approval:
    """A worker of an older release, beside this one in an upgrade, writes calls without a question."""
    if call.state != State.AWAITING_APPROVAL:
        raise _waits_for_nothing(call)
    made = question(call, session.agent_id)
    Approval.objects.bulk_create([made], ignore_conflicts=True)
    return Approval.objects.get(execution=call)


@transaction.atomic
def answer_custom(
    session: Session,
    answer: CustomToolResult,
    author_id: UUID | None,
    dedupe_key: str | None = None,
) -> tuple[int, UUID | None]:
    """Take the result of a tool that the client runs itself."""
    call = _waiting(session, answer.tool_use_id, State.RUNNING)
    if call.ownership != "custom":
        raise NothingToAnswer("This call is run by Switchyard itself.")
    call.state = State.ERROR if answer.is_error else State.COMPLETED
    call.output, call.finished_at = answer.output, timezone.now()
    call.error = str(answer.output) if answer.is_error else ""
    call.save(update_fields=["state", "output", "error", "finished_at"])
    payload = {**answer.model_dump(mode="json"), "name": call.name}
    event = NewEvent(type=E.USER_CUSTOM_TOOL_RESULT, payload=payload, dedupe_key=dedupe_key)
    return write_and_resume(session, [event, result_event(call)], author_id)


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
    write_and_resume(session, [result_event(call)], None)
    return True


def _waiting(session: Session, tool_use_id: str, state: str) -> ToolExecution:
    """The call, under the lane's lock, if it still waits for this kind of answer."""
    hold_lane(session.pk)
    call = _call(session, tool_use_id)
    if call.state != state:
        raise _waits_for_nothing(call)
    return call


def _call(session: Session, tool_use_id: str) -> ToolExecution:
    call = ToolExecution.objects.filter(session=session, tool_use_id=tool_use_id).first()
    if call is None:
        raise NotFound(f"This session has no call {tool_use_id!r}.")
    return call


def _waits_for_nothing(call: ToolExecution) -> NothingToAnswer:
    if call.state == State.AWAITING_APPROVAL:
        return NothingToAnswer(
            f"The call {call.tool_use_id} is awaiting_approval: it goes out once a person has "
            "allowed it, at approvals/ or with user.tool_confirmation."
        )
    return NothingToAnswer(f"The call {call.tool_use_id} is {call.state} and waits for no answer.")
