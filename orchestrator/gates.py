"""Approvals that workflows wait for: opened with the step that waits, answered once, from any door.

The question is an approval like any other, seen in the same inbox; the database ends it with its
step, whatever ends that. Its time is the step's: it stands still while the workflow is paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from config.faults import NoGate
from orchestrator.models import Step, Workflow
from sessions_app import approval_bell
from sessions_app.approvals import Answer, open_approval, resolve, resolver, too_late
from sessions_app.models import Approval
from sessions_app.statements import row, rows

if TYPE_CHECKING:
    from orchestrator.engine.store import Claimed
    from tenants.access import Principal

LONGEST_NOTE = 2_000
Status = Approval.Status
#: The workflow before the question: whatever ends the step holds them in this order too.
HOLD = """
SELECT w.id FROM workflows w JOIN workflow_steps s ON s.workflow_id = w.id
 WHERE s.id = %s FOR NO KEY UPDATE OF w
"""
LATE = """
SELECT s.wake_at <= clock_timestamp() AND w.status <> 'paused' FROM workflow_steps s
  JOIN workflows w ON w.id = s.workflow_id WHERE s.id = %s
"""


def open_gate(held: Claimed, step_id: UUID, detail: dict[str, Any], seconds: float | None) -> None:
    """A step begins to wait for a person, in the transaction that writes it."""
    open_approval(
        workspace_id=held.workspace_id,
        subject=Approval.Subject.WORKFLOW,
        subject_id=step_id,
        title=str(detail.get("title") or f"Let {held.name} go on"),
        input={**detail, "workflow": held.name, "workflow_id": str(held.id)},
        reason=f"The workflow {held.name} asks.",
        seconds=seconds,
        created_by_id=held.created_by_id,
    )


def close_gates(workflow_id: UUID) -> None:
    """Tell the inbox that this workflow's questions are over; the database has ended them."""
    steps = Step.objects.filter(workflow_id=workflow_id, kind=Step.Kind.WAIT_FOR_APPROVAL)
    asked = Approval.objects.filter(
        subject=Approval.Subject.WORKFLOW, subject_id__in=steps.values("pk")
    )
    approval_bell.announce(list(asked))


def tell_expired(workflow_ids: Sequence[UUID]) -> None:
    """The same for questions of these workflows whose time was up."""
    steps = Step.objects.filter(
        workflow_id__in=workflow_ids, kind=Step.Kind.WAIT_FOR_APPROVAL, status=Step.Status.ERRORED
    )
    asked = Approval.objects.filter(
        subject=Approval.Subject.WORKFLOW, subject_id__in=steps.values("pk"), status=Status.EXPIRED
    )
    approval_bell.announce(list(asked))


def find_gate(workflow: Workflow, step: str = "") -> Step:
    """The step that waits for a person, by name if there could be doubt."""
    waiting = Step.objects.filter(
        workflow=workflow, kind=Step.Kind.WAIT_FOR_APPROVAL, status=Step.Status.WAITING
    )
    if step:
        waiting = waiting.filter(name=step)
    found = waiting.order_by("position").first()
    if found is None or workflow.is_over:
        raise NoGate
    return found


def answer_gate(
    workflow: Workflow, principal: Principal, *, allow: bool, note: str = "", step: str = ""
) -> None:
    """Say yes or no. Of two answers the first counts, and the second hears so."""
    gate = find_gate(workflow, step)
    asked = Approval.objects.filter(
        subject=Approval.Subject.WORKFLOW, subject_id=gate.pk, status=Status.PENDING
    ).first()
    if asked is None:
        raise NoGate
    note = note.replace("\0", "")[:LONGEST_NOTE]
    resolve(asked, Answer(decision="allow" if allow else "deny", note=note), principal)


def hold_workflow(asked: Approval) -> None:
    rows(HOLD, [asked.subject_id])


@resolver("workflow", hold=hold_workflow, keeps_time=True)
def go_on(answered: Approval) -> None:
    """Give the step its end, in the transaction of the answer."""
    from orchestrator.engine import store  # it knows this module
    from orchestrator.engine.ringing import ring

    gate = Step.objects.filter(pk=answered.subject_id).first()
    if gate is None or answered.status == Status.CANCELLED:
        return
    if row(LATE, [gate.pk])[0]:
        raise too_late(answered)
    person = answered.resolved_by
    by, note = person.display_name if person else answered.resolved_name, answered.note
    if answered.status == Status.ALLOWED:
        at = answered.resolved_at.isoformat() if answered.resolved_at else ""
        answer = {"approved": True, "by": by, "note": note, "at": at}
        done = store.settle(gate.workflow_id, gate.position, "complete", result=answer)
    else:
        said = f"{by} said no" + (f": {note}" if note else ".")
        error = {"code": "rejected", "message": said, "by": by, "note": note}
        done = store.settle(gate.workflow_id, gate.position, "errored", error=error)
    if not done:
        raise NoGate
    ring(gate.workflow_id)
