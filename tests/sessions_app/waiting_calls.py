"""Helpers that open approvals and answer them."""

from __future__ import annotations

from agents.providers.base import ToolCall
from sessions_app.approvals.approvals import ApprovalAnswer, answer_approval, approvals_for
from sessions_app.models import Approval, Run, Session, ToolExecution
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import WORDS, say


def command(text: str, id: str = "c1") -> ToolCall:
    return ToolCall(call_id=id, name="exec", arguments={"command": text})


def ask(session: Session, principal, script, *steps, text: str = "echo hi") -> Approval:
    """Let the agent request a command and return the pending approval."""
    script(*(steps or ([command(text)], WORDS)))
    say(session, principal)
    serve(session.pk)
    return pending()


def pending() -> Approval:
    return Approval.objects.pending().latest("id")


def allow(approval: Approval, principal, **words):
    return answer_approval(approval, ApprovalAnswer(decision="allow", **words), principal)


def deny(approval: Approval, principal, **words):
    return answer_approval(approval, ApprovalAnswer(decision="deny", **words), principal)


def parked(session: Session, count: int = 1, name: str = "exec") -> list[Approval]:
    """Write a session that waits for these approvals, without a run."""
    run = Run.objects.create(
        workspace_id=session.workspace_id, session=session, status=Run.Status.COMPLETED
    )
    calls = [
        ToolExecution(
            workspace_id=session.workspace_id,
            session=session,
            run=run,
            tool_use_id=f"tu_{run.pk.hex}_{nth}",
            name=name,
            input={"command": f"echo {nth}"} if name == "exec" else {"text": f"{run.pk}-{nth}"},
            decision="ask",
            decided_by="default: exec asks first",
            state=ToolExecution.State.AWAITING_APPROVAL,
        )
        for nth in range(count)
    ]
    ToolExecution.objects.bulk_create(calls)
    Session.objects.filter(pk=session.pk).update(status="requires_action")
    return Approval.objects.bulk_create(approvals_for(calls, session.agent_id))
