"""Steps that wait for somebody else: a person, an agent's run, another workflow.

What is asked and the step that waits for it are one commit, so neither is there without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import DataError, Error, transaction

from agents.definitions import find_agent
from config.faults import Fault, NonRetryableError, StaleEpoch
from orchestrator import gates
from orchestrator.engine import store
from orchestrator.engine.control import Held, Parked
from orchestrator.engine.definition import checked_params, current
from orchestrator.engine.starting import start_for_key
from orchestrator.engine.store import Body, Claimed, NewWorkflow
from orchestrator.models import Step, Workflow
from sessions_app import lanes
from sessions_app.log import NewEvent
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from sessions_app.waiting import OVER
from tenants.ids import uuid7
from tenants.off_loop import let_go

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.replay import Place
    from orchestrator.engine.runner import Runner

SHOWN_MESSAGE = 2_000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an agent is asked to do, and in which conversation."""

    agent: str
    message: str
    session_key: str


def _ask(runner: Runner, place: Place, begin: Callable[[], Body], seconds: float | None) -> Any:
    """Ask and begin to wait in one commit. It parks; only a replay goes on from here."""
    if place.known and place.branch:
        raise Held(place.position)
    if place.known:  # asked before, and there is no answer yet
        runner.begin(place.body(seconds=seconds))
        raise Parked
    runner.flush(wait=True)
    runner.sign_check()
    try:
        with transaction.atomic():
            state, _ = store.advance(runner.claimed, begun=place.body(seconds=seconds, **begin()))
            if state not in ("parked", "held"):  # it was taken away: what was asked is taken back
                raise Parked
    except StaleEpoch:
        raise Parked from None
    except Fault as fault:
        raise NonRetryableError(fault.detail) from fault
    except DataError as error:
        # However often it is tried: NUL, for one, is nothing that the database takes.
        raise NonRetryableError("What was asked holds what cannot be stored.") from error
    except Error as error:
        # Whether it was asked is found out by the next holder.
        runner.sign.give("database")
        raise Parked from error
    finally:
        let_go()
    runner.ring()
    if state == "held":
        raise Held(place.position)
    raise Parked


def ask_person(runner: Runner, place: Place, detail: Body, seconds: float | None) -> Any:
    def begin() -> Body:
        gates.open_gate(runner.claimed, place.id, detail, seconds)
        return {"detail": detail}

    return _ask(runner, place, begin, seconds)


def ask_agent(
    runner: Runner, place: Place, asked: Asked, seconds: float | None, before: list[Body]
) -> Any:
    def begin() -> Body:
        session, run_id = _send(runner.claimed, place, asked, before)
        detail = {
            "session_id": str(session.pk),
            "agent_id": str(session.agent_id),
            "agent": str(session.agent),
            "session_key": asked.session_key,
            "message": asked.message[:SHOWN_MESSAGE],
        }
        return {"detail": detail, "run_id": run_id}

    return _ask(runner, place, begin, seconds)


def _send(
    held: Claimed, place: Place, asked: Asked, before: list[Body]
) -> tuple[Session, UUID | None]:
    """Send the message in the workflow's session with this agent. The same step sends it once."""
    agent = find_agent(held.workspace_id, asked.agent)
    used = [
        detail["session_id"]
        for detail in before
        if (detail.get("agent_id"), detail.get("session_key")) == (str(agent.pk), asked.session_key)
    ]
    session = Session.objects.for_workspace(held.workspace_id).filter(pk__in=used[-1:]).first()
    if session is None:
        session, _ = get_or_create_session(
            agent=agent,
            session_key=f"workflow:{held.id}:{asked.session_key or held.generation}"[:200],
            title=f"{held.name}: {place.name}"[:200],
            created_by_id=held.created_by_id,
            metadata={"workflow_id": str(held.id)},
        )
    event = NewEvent(
        type=SessionEvent.Type.USER_MESSAGE,
        payload={"text": asked.message, "attachments": []},
        dedupe_key=f"workflow:{held.id}:{held.generation}:{place.position}",
        key_id=_key_of(held),
    )
    accepted = lanes.accept(session.pk, event, author_id=held.created_by_id)
    return session, accepted.run_id


def ask_child(runner: Runner, place: Place, name: str, params: Body, seconds: float | None) -> Any:
    held = runner.claimed

    def begin() -> Body:
        key = f"{held.id}:{held.generation}:{place.position}"
        child_id = start_child(held, name, params, key)
        return {
            "detail": {"workflow": name, "workflow_id": str(child_id)},
            "child_id": child_id,
        }

    return _ask(runner, place, begin, seconds)


def start_child(held: Claimed, name: str, params: Body, key: str) -> UUID:
    made = current(name)
    new = NewWorkflow(
        id=uuid7(),
        workspace_id=held.workspace_id,
        key=key,
        name=made.name,
        version=made.version,
        params=checked_params(made, params, held.workspace_id),
        created_by_id=held.created_by_id,
        concurrency_key=f"name:{made.name}" if made.concurrency else "",
        concurrency_limit=made.concurrency,
        parent_id=held.id,
        agent_id=held.agent_id,
    )
    key_id = _key_of(held)
    return (store.start(new) if key_id is None else start_for_key(new, key_id)).id


def _key_of(held: Claimed) -> UUID | None:
    """The key that started it, whose budget pays for its agents and children too."""
    return Workflow.objects.filter(pk=held.id).values_list("key_id", flat=True).first()


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


def settle_run(run_id: UUID) -> UUID | None:
    """Give the step that waits for this run its end, if the run is over."""
    step = Step.objects.filter(run_id=run_id, status=Step.Status.WAITING).first()
    run = _last_of_turn(run_id) if step else None
    if step is None or run is None:
        return None
    if run.status == Run.Status.COMPLETED:
        facts = {"session_id": str(run.session_id), "run_id": str(run.pk), "usage": run.usage}
        result = {
            "text": (run.result or {}).get("text", ""),
            "stop_reason": run.stop_reason,
            **facts,
        }
        done = store.settle(step.workflow_id, step.position, "complete", result=result)
    else:
        said = (run.error or {}).get("message") or run.stop_reason or "no reason was given"
        error = {"code": f"run_{run.status}", "message": f"The agent's run is {run.status}: {said}"}
        done = store.settle(step.workflow_id, step.position, "errored", error=error)
    return step.workflow_id if done else None


def _last_of_turn(run_id: UUID) -> Run | None:
    """The run that ended the turn: the one that was started, or one that resumed it."""
    first = Run.objects.filter(pk=run_id).first()
    if first is None or first.status not in OVER:
        return None
    if first.stop_reason != "requires_action":
        return first
    resumed = Run.objects.filter(
        session_id=first.session_id, resumes=True, status__in=OVER, created_at__gt=first.created_at
    )
    return resumed.exclude(stop_reason="requires_action").order_by("created_at").first()


def settle_child(child_id: UUID) -> UUID | None:
    """Give the step that waits for this workflow its end, if the workflow is over."""
    step = Step.objects.filter(child_id=child_id, status=Step.Status.WAITING).first()
    child = Workflow.objects.over().filter(pk=child_id).first() if step else None
    if step is None or child is None:
        return None
    if child.status == Workflow.Status.COMPLETE:
        done = store.settle(step.workflow_id, step.position, "complete", result=child.output)
    else:
        said = (child.error or {}).get("message", "")
        error = {
            "code": f"child_{child.status}",
            "message": f"The workflow {child.name} is {child.status}. {said}".strip(),
        }
        done = store.settle(step.workflow_id, step.position, "errored", error=error)
    return step.workflow_id if done else None
