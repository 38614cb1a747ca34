"""What an answer does to the call that waited for it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils import timezone

from agents.definitions import version_by_id
from config.faults import Invalid, StillAsks, ToolFailed
from sessions_app.approval_answer import Answer
from sessions_app.log import NewEvent, append_events
from sessions_app.models import Approval, Session, SessionEvent, ToolExecution
from sessions_app.resuming import result_event, write_and_resume
from tenants.access import Principal
from tools_app.grants import lasting_rule_of, rule_of
from tools_app.places import place_of_agent
from tools_app.policies import allow_also
from tools_app.policy import allowing, decide
from tools_app.registry import Tool
from tools_app.selection import effective_policy
from tools_app.workspace_tools import tools_of_workspace

E, State, Scope = SessionEvent.Type, ToolExecution.State, Approval.Scope
EXPIRED = "Nobody answered in time, so this call was not allowed. It was not run."
CANCELLED = "Stopped before it ended."


def prepare(held: Approval, answer: Answer, principal: Principal) -> None:
    """Check what the person wrote, and keep what a wider answer covers. Writes a policy for `always`."""
    if not answer.allows:
        return
    call = _call_of(held)
    tool = tools_of_workspace(held.workspace_id).get(call.name)
    input = call.input
    if answer.input is not None and answer.input != input:
        input = held.edited_input = _checked(tool, answer.input)
    if answer.scope == Scope.ONCE:
        return
    if tool is None:
        raise Invalid(f"There is no tool named {call.name!r} any more.")
    if answer.scope == Scope.SESSION:
        held.rule = rule_of(tool, input)
    else:
        held.rule = _allow_always(held, tool, input, principal)


def _checked(tool: Tool | None, input: dict[str, Any]) -> dict[str, Any]:
    """Edited arguments that the tool takes. Whether its policy lets them through, the run asks."""
    if tool:
        try:
            tool.parse(input)
        except ToolFailed as fault:
            raise Invalid(fault.detail) from None
    return input


def _allow_always(held: Approval, tool: Tool, input: dict[str, Any], principal: Principal) -> str:
    """Write the rule into the agent's policy, unless some layer would ask or deny all the same."""
    session, rule = _session_of(held), lasting_rule_of(tool, input)
    layers = effective_policy(version_by_id(session.agent_version_id), session.pk).layers
    widened = [allowing(layer, tool, rule) if layer.name == "agent" else layer for layer in layers]
    decided = decide(tool.name, widened, input, tools={tool.name: tool})
    if decided.decision != "allow":
        raise StillAsks(
            f"A rule {rule} of the agent would change nothing, as there is another one: "
            f"{decided.decided_by}. Allow it once or for this session."
        )
    allow_also(principal, place_of_agent(session.agent_id), tool, rule)
    return rule


def apply(
    held: Approval, answer: Answer | None, principal: Principal | None, dedupe_key: str | None
) -> tuple[int, UUID | None]:
    """Let the call run or end it, write both to the log, and go on with the session."""
    call, events = _call_of(held), []
    if answer and principal:
        events.append(_confirmation(held, answer, principal, dedupe_key))
    if answer and answer.allows:
        call.state = State.REQUESTED
        call.input = call.input if held.edited_input is None else held.edited_input
    else:
        call.state, call.error = _refusal(held)
        call.finished_at = timezone.now()
        events.append(result_event(call))
    call.save(update_fields=["state", "input", "error", "finished_at"])
    author_id = principal.user_id if principal else None
    if held.status == Approval.Status.CANCELLED:
        # Whoever stops a session does not want it to go on.
        return append_events(_session_of(held).pk, events, author_id=author_id), None
    return write_and_resume(_session_of(held), events, author_id)


def _refusal(held: Approval) -> tuple[str, str]:
    match held.status:
        case Approval.Status.EXPIRED:
            return State.DENIED, EXPIRED
        case Approval.Status.CANCELLED:
            return State.CANCELLED, CANCELLED
        case _ if held.note:
            return State.DENIED, f"A person refused: {held.note}"
        case _:
            return State.DENIED, "A person refused this call."


def _confirmation(
    held: Approval, answer: Answer, principal: Principal, dedupe_key: str | None
) -> NewEvent:
    payload = {
        "tool_use_id": _call_of(held).tool_use_id,
        "name": _call_of(held).name,
        "decision": answer.decision,
        "scope": answer.scope,
        "note": answer.note,
        "input": held.edited_input,
        "rule": held.rule,
        "approval_id": str(held.pk),
        "answered_by": principal.spoken_name,
    }
    return NewEvent(type=E.USER_TOOL_CONFIRMATION, payload=payload, dedupe_key=dedupe_key)


def _call_of(held: Approval) -> ToolExecution:
    if held.execution is None:
        raise AssertionError("an approval of a tool has its call")
    return held.execution


def _session_of(held: Approval) -> Session:
    if held.session is None:
        raise AssertionError("a call has its session")
    return held.session
