"""Ends the waiting of a tool call: by a person's answer, a client's result, or a timeout.

An answer is taken exactly once. When nothing else blocks the session, a run goes on from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.utils import timezone

from agents.definitions import version_by_id
from core.exceptions import Invalid, NotFound
from core.validation import UNFIT, fit_json
from sessions_app.approvals import approvals
from sessions_app.exceptions import NothingToAnswer, StillAsks
from sessions_app.lanes.signals import wake
from sessions_app.log.payloads import CustomToolResult, ToolConfirmation
from sessions_app.log.sql import lock_lane, row
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Approval, Run, Session, SessionEvent, ToolExecution
from tenants.access import Principal
from tools_app.exceptions import ToolFailed
from tools_app.policy.effective import effective_policy
from tools_app.policy.evaluation import decide
from tools_app.policy.rules import grant_rule, permanent_rule, with_allow_rule
from tools_app.policy.storage import add_allow_rule, agent_target
from tools_app.questions import Question
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_of_workspace

EventType = SessionEvent.Type
State = ToolExecution.State
Scope = Approval.Scope
BLOCKING = "SELECT (lane_lock(%s, NULL)).status, lane_blocking(%s)"
EXPIRED = "The approval was not answered in time, so this call was denied. It was not run."
CANCELLED = "Stopped before it ended."


def confirm_call(
    session: Session,
    confirmation: ToolConfirmation,
    principal: Principal,
    dedupe_key: str | None = None,
) -> tuple[int, UUID | None]:
    """Answer the approval of a call: run it, as stored or with edited arguments, or refuse it."""
    call = _get_call(session, confirmation.tool_use_id)
    approval = Approval.objects.filter(execution=call).first() or _missing_approval(call, session)
    answer = approvals.ApprovalAnswer(
        decision=confirmation.decision,
        scope=confirmation.scope,
        note=confirmation.note,
        input=confirmation.input,
        values=confirmation.values,
    )
    resolved = approvals.answer_approval(approval, answer, principal, dedupe_key=dedupe_key)
    if resolved.seq is None:
        raise AssertionError("the answer to a call is an event")
    return resolved.seq, resolved.run_id


def _missing_approval(call: ToolExecution, session: Session) -> Approval:
    """Create the approval of a call that a worker of an older release wrote without one."""
    if call.state != State.AWAITING_APPROVAL:
        raise _not_waiting(call)
    Approval.objects.bulk_create(
        [approvals.approval_for(call, session.agent_id)], ignore_conflicts=True
    )
    return Approval.objects.get(execution=call)


def _check(approval: Approval, answer: approvals.ApprovalAnswer, principal: Principal) -> None:
    """Check edited arguments, and note the rule that a wider answer covers.

    The scope `always` writes its rule into the agent's policy. The answer to a question is stored in
    place of edited arguments.
    """
    call = _call_of(approval)
    if approvals.is_question(call):
        approval.edited_input = _check_values(call, answer)
        return
    if answer.decision == "answer" or answer.values is not None:
        raise Invalid("Only a question is answered with values. Allow or deny this call.")
    if not answer.allows:
        return
    tool = tools_of_workspace(approval.workspace_id).get(call.name)
    input = call.input
    if answer.input is not None and answer.input != input:
        input = approval.edited_input = _valid_input(tool, answer.input)
    if answer.scope == Scope.ONCE:
        return
    if tool is None:
        raise Invalid(f"There is no tool named {call.name!r} any more.")
    if answer.scope == Scope.SESSION:
        approval.rule = grant_rule(tool, input)
    else:
        approval.rule = _allow_always(approval, tool, input, principal)


def _check_values(call: ToolExecution, answer: approvals.ApprovalAnswer) -> dict[str, Any] | None:
    """Return the values that answer a question, or None if a person declines to answer."""
    if answer.decision == "deny":
        return None
    if answer.decision != "answer" or answer.scope != Scope.ONCE or answer.input is not None:
        raise Invalid("This is a question: answer it with the decision `answer` and `values`.")
    try:
        values: dict[str, Any] = fit_json(answer.values or {})
    except ValueError:
        raise Invalid(UNFIT) from None
    return Question.model_validate(call.input).checked(values)


def _valid_input(tool: Tool | None, input: dict[str, Any]) -> dict[str, Any]:
    """Return edited arguments if the tool accepts them. The run checks them against its policy."""
    try:
        fitted: dict[str, Any] = fit_json(input)
        if tool:
            tool.parse(fitted)
    except ValueError:
        raise Invalid(UNFIT) from None
    except ToolFailed as fault:
        raise Invalid(fault.detail) from None
    return fitted


def _allow_always(
    approval: Approval, tool: Tool, input: dict[str, Any], principal: Principal
) -> str:
    """Write the rule into the agent's policy, unless another layer would still ask or deny."""
    session, rule = _session_of(approval), permanent_rule(tool, input)
    policy = effective_policy(version_by_id(session.agent_version_id), session.pk)
    widened = [
        with_allow_rule(layer, tool, rule) if layer.name == "agent" else layer
        for layer in policy.layers
    ]
    decided = decide(tool.name, widened, input, tools={tool.name: tool})
    if decided.decision != "allow":
        raise StillAsks(
            f"A rule {rule} of the agent would change nothing, because another rule decides: "
            f"{decided.decided_by}. Allow it once or for this session."
        )
    add_allow_rule(principal, agent_target(session.agent_id), tool, rule)
    return rule


def _apply(resolution: approvals.Resolution) -> approvals.Effect:
    """Let the call run or end it, write both to the log, and continue the session."""
    approval, answer, principal = resolution.approval, resolution.answer, resolution.principal
    call, events = _call_of(approval), []
    if answer and principal:
        events.append(_confirmation_event(approval, answer, principal, resolution.dedupe_key))
    if answer and answer.allows:
        call.state = State.REQUESTED
        call.input = call.input if approval.edited_input is None else approval.edited_input
    elif answer and answer.decision == "answer":
        call.state, call.output = State.COMPLETED, approval.edited_input
        call.finished_at = timezone.now()
        events.append(result_event(call))
    else:
        call.state, call.error = _refusal(approval)
        call.finished_at = timezone.now()
        events.append(result_event(call))
    call.save(update_fields=["state", "input", "output", "error", "finished_at"])
    author_id = principal.user_id if principal else None
    session = _session_of(approval)
    if approval.status == Approval.Status.CANCELLED:
        # The session is being stopped, so it must not go on.
        return append_events(session.pk, events, author_id=author_id), None
    return write_and_resume(session, events, author_id)


approvals.HANDLERS[Approval.Subject.TOOL] = approvals.ApprovalHandler(apply=_apply, check=_check)


def _refusal(approval: Approval) -> tuple[str, str]:
    is_asked = approvals.is_question(approval.execution)
    match approval.status:
        case Approval.Status.EXPIRED if is_asked:
            return State.DENIED, "The question was not answered in time."
        case Approval.Status.EXPIRED:
            return State.DENIED, EXPIRED
        case Approval.Status.CANCELLED:
            return State.CANCELLED, CANCELLED
        case _ if is_asked:
            return State.DENIED, f"The person declined to answer. {approval.note}".strip()
        case _ if approval.note:
            return State.DENIED, f"A person refused: {approval.note}"
        case _:
            return State.DENIED, "A person refused this call."


def _confirmation_event(
    approval: Approval,
    answer: approvals.ApprovalAnswer,
    principal: Principal,
    dedupe_key: str | None,
) -> NewEvent:
    call = _call_of(approval)
    payload = {
        "tool_use_id": call.tool_use_id,
        "name": call.name,
        "decision": answer.decision,
        "scope": answer.scope,
        "note": answer.note,
        "input": None if answer.decision == "answer" else approval.edited_input,
        "rule": approval.rule,
        "approval_id": str(approval.pk),
        "answered_by": principal.spoken_name,
    }
    if answer.decision == "answer":
        payload["values"] = approval.edited_input
    return NewEvent(type=EventType.USER_TOOL_CONFIRMATION, payload=payload, dedupe_key=dedupe_key)


def _call_of(approval: Approval) -> ToolExecution:
    if approval.execution is None:
        raise AssertionError("an approval of a tool has its call")
    return approval.execution


def _session_of(approval: Approval) -> Session:
    if approval.session is None:
        raise AssertionError("a call has its session")
    return approval.session


@transaction.atomic
def accept_custom_result(
    session: Session,
    result: CustomToolResult,
    author_id: UUID | None,
    dedupe_key: str | None = None,
) -> tuple[int, UUID | None]:
    """Take the result of a tool that the client runs itself."""
    call = _lock_running(session, result.tool_use_id)
    if call.ownership != "custom":
        raise NothingToAnswer("This call is run by Switchyard itself.")
    call.state = State.ERROR if result.is_error else State.COMPLETED
    call.output, call.finished_at = result.output, timezone.now()
    call.error = str(result.output) if result.is_error else ""
    call.save(update_fields=["state", "output", "error", "finished_at"])
    payload = {**result.model_dump(mode="json"), "name": call.name}
    event = NewEvent(type=EventType.USER_CUSTOM_TOOL_RESULT, payload=payload, dedupe_key=dedupe_key)
    return write_and_resume(session, [event, result_event(call)], author_id)


@transaction.atomic
def expire_custom_call(session: Session, tool_use_id: str) -> bool:
    """End a call that its client did not answer in time. Return False if it was answered after all."""
    try:
        call = _lock_running(session, tool_use_id)
    except NothingToAnswer:
        return False
    call.state, call.finished_at = State.ERROR, timezone.now()
    call.error = "The client that runs this tool did not answer in time."
    call.save(update_fields=["state", "error", "finished_at"])
    write_and_resume(session, [result_event(call)], None)
    return True


def _lock_running(session: Session, tool_use_id: str) -> ToolExecution:
    """Return the call, under the lock of the lane, if it still waits for its result."""
    lock_lane(session.pk)
    call = _get_call(session, tool_use_id)
    if call.state != State.RUNNING:
        raise _not_waiting(call)
    return call


def _get_call(session: Session, tool_use_id: str) -> ToolExecution:
    call = ToolExecution.objects.filter(session=session, tool_use_id=tool_use_id).first()
    if call is None:
        raise NotFound(f"This session has no call {tool_use_id!r}.")
    return call


def _not_waiting(call: ToolExecution) -> NothingToAnswer:
    if call.state == State.AWAITING_APPROVAL:
        return NothingToAnswer(
            f"The call {call.tool_use_id} is awaiting_approval. Allow it first, at approvals/ or "
            "with user.tool_confirmation."
        )
    return NothingToAnswer(f"The call {call.tool_use_id} is {call.state} and waits for no answer.")


def result_event(call: ToolExecution, **facts: object) -> NewEvent:
    """Return the result of a call that was ended by an answer and not by a run."""
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
    return NewEvent(type=EventType.AGENT_TOOL_RESULT, payload=payload)


def write_and_resume(
    session: Session, events: Sequence[NewEvent], author_id: UUID | None
) -> tuple[int, UUID | None]:
    """Write the answer; then record what still blocks the session, or queue the run that goes on.

    A run that is about to park notices the answer by itself. An idle session with a waiting call
    has lost the run of that call, and the answer starts another one.
    """
    status, found = row(BLOCKING, [session.pk, session.pk])
    blocking = orjson.loads(found)
    first = append_events(session.pk, events, author_id=author_id) - len(events) + 1
    if status not in {Session.Status.REQUIRES_ACTION, Session.Status.IDLE}:
        return first, None
    if blocking:
        if status == Session.Status.REQUIRES_ACTION:
            payload = {"stop_reason": "requires_action", "blocking": blocking}
            append_events(session.pk, [NewEvent(type=EventType.STATUS_IDLE, payload=payload)])
        return first, None
    return first, resume(session, author_id)


def resume(session: Session, author_id: UUID | None) -> UUID:
    """Queue the run that goes on, under the lock of the lane, or return the one that waits."""
    waiting = Run.objects.filter(session=session, status=Run.Status.QUEUED, resumes=True).first()
    run = waiting or Run.objects.create(
        workspace_id=session.workspace_id, session=session, created_by_id=author_id, resumes=True
    )
    wake(session.pk)
    return run.pk
