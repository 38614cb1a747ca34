"""Steps that wait for a person, an agent's turn or another workflow: how they ask, and how they end.

The request and the step that waits for it are one commit, so neither exists without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import DataError, Error, transaction
from django.db.models import QuerySet

from agents.definitions import find_agent
from core.db import release_connection
from core.exceptions import Fault, StaleEpoch
from core.ids import uuid7
from orchestrator.engine import approvals, store
from orchestrator.engine.definition import BranchWaiting, Suspended, latest_version, validate_params
from orchestrator.engine.store import Body, NewWorkflow, WorkflowClaim
from orchestrator.exceptions import NonRetryableError
from orchestrator.models import Step, Workflow
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import FINISHED
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.runner import Runner
    from orchestrator.engine.steps import StepCall

SHOWN_MESSAGE = 2_000
#: How a run ends that leaves its turn to a person or a program; another run resumes the turn.
REQUIRES_ACTION = "requires_action"


@dataclass(frozen=True, kw_only=True)
class AgentMessage:
    """A message for an agent, and the conversation that it belongs to."""

    agent: str
    message: str
    session_key: str


# ── Asking ───────────────────────────────────────────────────────────────────────────────────────


def _ask(runner: Runner, call: StepCall, ask: Callable[[], Body], seconds: float | None) -> Any:
    """Ask and begin to wait in one commit. It always raises; only a replay continues from here."""
    if call.recorded and call.branch:
        raise BranchWaiting(call.position)
    if call.recorded:  # asked before, and not answered yet
        runner.begin(call.body(seconds=seconds))
        raise Suspended
    runner.flush(wait=True)
    runner.check_stopped()
    try:
        with transaction.atomic():
            state, _ = store.advance(runner.claim, begun=call.body(seconds=seconds, **ask()))
            if state not in ("parked", "held"):  # the workflow was taken away: undo the request
                raise Suspended
    except StaleEpoch:
        raise Suspended from None
    except Fault as fault:
        raise NonRetryableError(fault.detail) from fault
    except DataError as error:
        # A retry would not help: PostgreSQL does not accept NUL, for example.
        raise NonRetryableError("The request contains data that cannot be stored.") from error
    except Error as error:
        # The next holder finds out whether it was asked.
        runner.sign.send("database")
        raise Suspended from error
    finally:
        release_connection()
    runner.publish()
    if state == "held":
        raise BranchWaiting(call.position)
    raise Suspended


def ask_person(runner: Runner, call: StepCall, detail: Body, seconds: float | None) -> Any:
    seconds = settings.APPROVAL_SECONDS if seconds is None else seconds

    def ask() -> Body:
        approvals.request_approval(runner.claim, call.id, detail, seconds)
        return {"detail": detail}

    return _ask(runner, call, ask, seconds)


def ask_agent(
    runner: Runner, call: StepCall, asked: AgentMessage, seconds: float | None, before: list[Body]
) -> Any:
    """Send the message; `before` are the details of earlier steps that asked an agent."""

    def ask() -> Body:
        session, run_id = _send(runner.claim, call, asked, before)
        detail = {
            "session_id": str(session.pk),
            "agent_id": str(session.agent_id),
            "agent": str(session.agent),
            "session_key": asked.session_key,
            "message": asked.message[:SHOWN_MESSAGE],
        }
        return {"detail": detail, "run_id": run_id}

    return _ask(runner, call, ask, seconds)


def _send(
    claim: WorkflowClaim, call: StepCall, asked: AgentMessage, before: list[Body]
) -> tuple[Session, UUID | None]:
    """Send the message in the workflow's session with this agent. The same step sends it once."""
    agent = find_agent(claim.workspace_id, asked.agent)
    used = [
        detail["session_id"]
        for detail in before
        if (detail.get("agent_id"), detail.get("session_key")) == (str(agent.pk), asked.session_key)
    ]
    session = Session.objects.for_workspace(claim.workspace_id).filter(pk__in=used[-1:]).first()
    if session is None:
        session, _ = get_or_create_session(
            agent=agent,
            session_key=f"workflow:{claim.id}:{asked.session_key or claim.generation}"[:200],
            title=f"{claim.name}: {call.name}"[:200],
            created_by_id=claim.created_by_id,
            metadata={"workflow_id": str(claim.id)},
        )
    sources = _source_sessions(claim, before)
    event = NewEvent(
        type=SessionEvent.Type.USER_MESSAGE,
        payload={"text": asked.message, "attachments": [], "from_sessions": sources},
        dedupe_key=f"workflow:{claim.id}:{claim.generation}:{call.position}",
        key_id=paying_key(claim),
    )
    accepted = run_queue.accept(session.pk, event, author_id=claim.created_by_id)
    return session, accepted.run_id


def _source_sessions(claim: WorkflowClaim, before: list[Body]) -> list[str]:
    """Return the sessions whose text the message may contain: their taint passes to its reader."""
    tools = ToolExecution.objects.filter(workflow_id=claim.id).values_list("session_id", flat=True)
    asked = {detail["session_id"] for detail in before}
    # A test of a canvas may work with the outputs of an earlier run.
    return sorted({*asked, *map(str, tools.distinct()), *claim.params.get("source_sessions", [])})


def ask_child(
    runner: Runner, call: StepCall, name: str, params: Body, seconds: float | None
) -> Any:
    claim = runner.claim

    def ask() -> Body:
        key = f"{claim.id}:{claim.generation}:{call.position}"
        child_id = start_child(claim, name, params, key)
        return {
            "detail": {"workflow": name, "workflow_id": str(child_id)},
            "child_id": child_id,
        }

    return _ask(runner, call, ask, seconds)


def start_child(claim: WorkflowClaim, name: str, params: Body, key: str) -> UUID:
    made = latest_version(name)
    new = NewWorkflow(
        id=uuid7(),
        workspace_id=claim.workspace_id,
        key=key,
        name=made.name,
        version=made.version,
        params=validate_params(made, params, claim.workspace_id),
        created_by_id=claim.created_by_id,
        concurrency_key=f"name:{made.name}" if made.concurrency else "",
        concurrency_limit=made.concurrency,
        parent_id=claim.id,
        agent_id=claim.agent_id,
        key_id=paying_key(claim),
    )
    return store.start(new).id


def starting_position(child: Workflow) -> int:
    """Return the position of the step that started this child, whether a step waits for it or not."""
    return int(child.key.rpartition(":")[2])


def paying_key(claim: WorkflowClaim) -> UUID | None:
    """Return the API key that started the workflow; its budget pays for agents and children too."""
    return Workflow.objects.filter(pk=claim.id).values_list("key_id", flat=True).first()


# ── Settling ─────────────────────────────────────────────────────────────────────────────────────


def settle_run(run_id: UUID) -> UUID | None:
    """End the step that waits for this run's turn, if the turn is over. Return its workflow."""
    step = Step.objects.filter(run_id=run_id, status=Step.Status.WAITING).first()
    run = end_of_turn(run_id) if step else None
    if step is None or run is None:
        return None
    if run.status == Run.Status.COMPLETED and run.stop_reason != REQUIRES_ACTION:
        result = {
            "text": (run.result or {}).get("text", ""),
            "stop_reason": run.stop_reason,
            "session_id": str(run.session_id),
            "run_id": str(run.pk),
            "usage": run.usage,
        }
        done = store.settle(step.workflow_id, step.position, "complete", result=result)
    else:
        done = store.settle(step.workflow_id, step.position, "errored", error=_turn_error(run))
    return step.workflow_id if done else None


def _turn_error(run: Run) -> Body:
    """Return why a turn has no answer. One stopped while it waited has no run that says so."""
    if run.stop_reason == REQUIRES_ACTION:
        message = "The agent was stopped while it waited for an answer."
        return {"code": f"run_{Run.Status.CANCELLED}", "message": message}
    reason = (run.error or {}).get("message") or run.stop_reason or "no reason was given"
    return {"code": f"run_{run.status}", "message": f"The agent's run is {run.status}: {reason}"}


def end_of_turn(run_id: UUID) -> Run | None:
    """Return the run that ended the turn which this one began, or None while the turn continues.

    A run that waits for an action is the last of its turn only if the session has moved on.
    """
    first = Run.objects.select_related("session").filter(pk=run_id).first()
    if first is None or first.status not in FINISHED:
        return None
    if first.stop_reason != REQUIRES_ACTION or first.started_at is None:
        return first
    # Read before the session's runs, so that a run that resumes the turn later is not missed.
    is_left = first.session.status in {Session.Status.IDLE, Session.Status.TERMINATED}
    following = _next_turn(first, first.started_at)
    resumed = list(_resumed(first, first.started_at, following))
    if ended := next((run for run in resumed if _has_ended(run)), None):
        return ended
    if all(run.status in FINISHED for run in resumed) and (is_left or following):
        return resumed[-1] if resumed else first
    return None


def _has_ended(run: Run) -> bool:
    return run.status in FINISHED and run.stop_reason != REQUIRES_ACTION


def _next_turn(first: Run, began: datetime) -> datetime | None:
    """Return when the session began its next turn, which it does only after this one."""
    turns = Run.objects.filter(session_id=first.session_id, resumes=False, purpose=first.purpose)
    later = turns.filter(started_at__gt=began).order_by("started_at")
    return later.values_list("started_at", flat=True).first()


def _resumed(first: Run, began: datetime, until: datetime | None) -> QuerySet[Run]:
    """Return the runs that resumed the turn; runs of the next turn may have been queued before."""
    runs = Run.objects.filter(session_id=first.session_id, resumes=True, created_at__gt=began)
    if until:
        runs = runs.filter(created_at__lt=until)
    return runs.order_by("created_at")


def settle_child(child_id: UUID) -> UUID | None:
    """End the step that waits for this workflow, if the workflow is over. Return its parent."""
    step = Step.objects.filter(child_id=child_id, status=Step.Status.WAITING).first()
    child = Workflow.objects.over().filter(pk=child_id).first() if step else None
    if step is None or child is None:
        return None
    if child.status == Workflow.Status.COMPLETE:
        done = store.settle(step.workflow_id, step.position, "complete", result=child.output)
    else:
        reason = (child.error or {}).get("message", "")
        error = {
            "code": f"child_{child.status}",
            "message": f"The workflow {child.name} is {child.status}. {reason}".strip(),
        }
        done = store.settle(step.workflow_id, step.position, "errored", error=error)
    return step.workflow_id if done else None
