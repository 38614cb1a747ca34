"""Approvals that workflows wait for: requested with the step that waits, and answered once.

They are shown in the same inbox as all others. The database closes an approval with its step. Its
time limit is the step's, and stands still while the workflow is paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from orchestrator.engine import store
from orchestrator.engine.publisher import notify_viewers
from orchestrator.exceptions import NoPendingApproval
from orchestrator.models import Step, Workflow
from sessions_app.approvals import approvals
from sessions_app.log.sql import row, rows
from sessions_app.models import Approval

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from orchestrator.engine.store import WorkflowClaim
    from tenants.access import Principal

MAX_NOTE = 2_000
Status = Approval.Status
#: The workflow before the approval: every statement that ends the step locks them in this order.
LOCK = """
SELECT w.id FROM workflows w JOIN workflow_steps s ON s.workflow_id = w.id
 WHERE s.id = %s FOR NO KEY UPDATE OF w
"""
IS_LATE = """
SELECT s.wake_at <= clock_timestamp() AND w.status <> 'paused' FROM workflow_steps s
  JOIN workflows w ON w.id = s.workflow_id WHERE s.id = %s
"""


def request_approval(
    claim: WorkflowClaim, step_id: UUID, detail: dict[str, Any], seconds: float | None
) -> None:
    """Request the approval that a step waits for, in the transaction that writes the step."""
    approvals.open_approval(
        workspace_id=claim.workspace_id,
        subject=Approval.Subject.WORKFLOW,
        subject_id=step_id,
        title=str(detail.get("title") or f"Let {claim.name} continue"),
        input={**detail, "workflow": claim.name, "workflow_id": str(claim.id)},
        reason=f"The workflow {claim.name} asks for approval.",
        seconds=seconds,
        created_by_id=claim.created_by_id,
    )


def announce_closed(workflow_id: UUID) -> None:
    """Tell the inbox that this workflow's approvals are over; the database has closed them."""
    steps = Step.objects.filter(workflow_id=workflow_id, kind=Step.Kind.WAIT_FOR_APPROVAL)
    approvals.announce(list(_approvals_of(steps)))


def announce_expired(workflow_ids: Sequence[UUID]) -> None:
    """Tell the inbox which approvals of these workflows have expired."""
    steps = Step.objects.filter(
        workflow_id__in=workflow_ids, kind=Step.Kind.WAIT_FOR_APPROVAL, status=Step.Status.ERRORED
    )
    approvals.announce(list(_approvals_of(steps).filter(status=Status.EXPIRED)))


def _approvals_of(steps: QuerySet[Step]) -> QuerySet[Approval]:
    return Approval.objects.filter(
        subject=Approval.Subject.WORKFLOW, subject_id__in=steps.values("pk")
    )


def find_waiting_step(workflow: Workflow, name: str = "") -> Step:
    """Return the step that waits for a person: the one of this name, or the first."""
    waiting = Step.objects.filter(
        workflow=workflow, kind=Step.Kind.WAIT_FOR_APPROVAL, status=Step.Status.WAITING
    )
    if name:
        waiting = waiting.filter(name=name)
    found = waiting.order_by("position").first()
    if found is None or workflow.is_over:
        raise NoPendingApproval
    return found


def answer_approval(
    workflow: Workflow, principal: Principal, *, allow: bool, note: str = "", step: str = ""
) -> None:
    """Approve or reject. Of two answers the first counts, and the second raises an error."""
    waiting = find_waiting_step(workflow, step)
    pending = Approval.objects.filter(
        subject=Approval.Subject.WORKFLOW, subject_id=waiting.pk, status=Status.PENDING
    ).first()
    if pending is None:
        raise NoPendingApproval
    note = note.replace("\0", "")[:MAX_NOTE]
    answer = approvals.ApprovalAnswer(decision="allow" if allow else "deny", note=note)
    approvals.answer_approval(pending, answer, principal)


def lock_workflow(approval: Approval) -> None:
    rows(LOCK, [approval.subject_id])


@approvals.resolver("workflow", lock=lock_workflow, keeps_time=True)
def settle_step(answered: Approval) -> None:
    """End the step that waits, in the transaction of the answer."""
    step = Step.objects.filter(pk=answered.subject_id).first()
    if step is None or answered.status == Status.CANCELLED:
        return
    if row(IS_LATE, [step.pk])[0]:
        raise approvals.too_late(answered)
    person = answered.resolved_by
    by, note = person.display_name if person else answered.resolved_name, answered.note
    if answered.status == Status.ALLOWED:
        at = answered.resolved_at.isoformat() if answered.resolved_at else ""
        answer = {"approved": True, "by": by, "note": note, "at": at}
        done = store.settle(step.workflow_id, step.position, "complete", result=answer)
    else:
        message = f"Rejected by {by}" + (f": {note}" if note else ".")
        error = {"code": "rejected", "message": message, "by": by, "note": note}
        done = store.settle(step.workflow_id, step.position, "errored", error=error)
    if not done:
        raise NoPendingApproval
    notify_viewers([step.workflow_id])
