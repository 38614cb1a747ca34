"""Steps that wait for somebody else: a person, an agent's run, another workflow.

What is asked and the step that waits for it are one commit, so neither is there without the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import DataError, Error, transaction

from agents.definitions import find_agent
from config.faults import Fault, NonRetryableError, StaleEpoch
from orchestrator import gates
from orchestrator.engine import store
from orchestrator.engine.control import Held, Parked
from orchestrator.engine.definition import checked_params, current
from orchestrator.engine.starting import start_for_key
from orchestrator.engine.store import Body, Claimed, NewWorkflow
from orchestrator.models import Workflow
from sessions_app import lanes
from sessions_app.log import NewEvent
from sessions_app.models import Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session
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
    seconds = settings.APPROVAL_SECONDS if seconds is None else seconds

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
        payload={"text": asked.message, "attachments": [], "from_sessions": _heard(held, before)},
        dedupe_key=f"workflow:{held.id}:{held.generation}:{place.position}",
        key_id=key_of(held),
    )
    accepted = lanes.accept(session.pk, event, author_id=held.created_by_id)
    return session, accepted.run_id


def _heard(held: Claimed, before: list[Body]) -> list[str]:
    """The sessions whose words this message may pass on: if one saw the outside, so has its reader."""
    tools = ToolExecution.objects.filter(workflow_id=held.id).values_list("session_id", flat=True)
    return sorted({*(detail["session_id"] for detail in before), *map(str, tools.distinct())})


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
    key_id = key_of(held)
    return (store.start(new) if key_id is None else start_for_key(new, key_id)).id


def started_at(child: Workflow) -> int:
    """The position of the step that started it, whether somebody waits for it or not."""
    return int(child.key.rpartition(":")[2])


def key_of(held: Claimed) -> UUID | None:
    """The key that started it, whose budget pays for its agents and children too."""
    return Workflow.objects.filter(pk=held.id).values_list("key_id", flat=True).first()
