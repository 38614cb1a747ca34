"""Schedules: messages sent to a session later, once or repeatedly, for people and agents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.models import Agent
from core.db import lock_row
from core.exceptions import Conflict, Fault, Invalid
from memory.documents import HEARTBEAT, content_of, find_by_path
from memory.ownership import Reader
from sessions_app.consolidation import request_consolidation
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Firing, Schedule, Session, SessionEvent
from sessions_app.schedules import timing
from sessions_app.sessions import get_or_create_session
from tenants.billing.spending import check_purses
from tenants.quotas import SCHEDULES, check_quota

#: A session may ask for few wake-ups, so that a loop of them cannot run away.
MAX_PER_SESSION = 3
#: The fields that say when it is due.
TIME_FIELDS = ("kind", "next_at", "interval_seconds", "cron", "timezone")


def plan(schedule: Schedule, now: datetime | None = None) -> Schedule:
    """Validate the schedule, and set when it is due first."""
    now = now or timezone.now()
    if not schedule.message.strip() and schedule.task == Schedule.Task.MESSAGE:
        raise Invalid("A schedule needs a message.")
    if schedule.kind not in Schedule.Kind.values:
        raise Invalid(f"kind must be one of {', '.join(Schedule.Kind.values)}.")
    timing.check_times(schedule)
    if schedule.kind != Schedule.Kind.ONCE:
        schedule.next_at = timing.next_time(schedule, now)
    elif schedule.next_at is None or not now < schedule.next_at <= now + timing.LONGEST:
        raise Invalid("`at` must be in the future, within a year.")
    return schedule


def _set_agent(schedule: Schedule) -> Schedule:
    """Set the agent of the schedule: its session's, or the one that is named."""
    if schedule.session is None:
        if schedule.agent_id is None:
            raise Invalid("Name an agent or a session.")
        return schedule
    if schedule.task == Schedule.Task.CONSOLIDATION:
        raise Invalid("A consolidation belongs to an agent. Leave out the session.")
    if schedule.session.about_id:
        raise Invalid(
            "A session with the builder cannot be scheduled: a person decides what it changes."
        )
    schedule.agent = schedule.session.agent
    return schedule


@transaction.atomic
def create_schedule(*, workspace_id: UUID, **fields: Any) -> Schedule:
    """Create a schedule, within the limits of its session and workspace."""
    schedule = plan(_set_agent(Schedule(workspace_id=workspace_id, **fields)))
    active = Schedule.objects.filter(workspace_id=workspace_id, next_at__isnull=False)
    check_quota(workspace_id, SCHEDULES, active)
    if (
        schedule.asked_by_id
        and active.filter(asked_by=schedule.asked_by_id).count() >= MAX_PER_SESSION
    ):
        raise Conflict(
            f"A session may have at most {MAX_PER_SESSION} schedules at a time. Cancel one first."
        )
    consolidates = schedule.task == Schedule.Task.CONSOLIDATION
    agents_own = Schedule.objects.filter(agent_id=schedule.agent_id, task=schedule.task)
    if consolidates and agents_own.exists():
        raise Conflict("This agent has a schedule for its memory already. Change that one.")
    schedule.save()
    return schedule


@transaction.atomic
def change_schedule(schedule: Schedule, **fields: Any) -> Schedule:
    """Change what is sent, or when. A change of the message alone does not move the next time."""
    locked = lock_row(schedule)
    changes = {**fields, "next_at": fields.get("next_at") or locked.next_at}
    is_moved = any(
        getattr(locked, name) != changes[name] for name in TIME_FIELDS if name in changes
    )
    for name, value in changes.items():
        setattr(locked, name, value)
    _set_agent(locked)
    if is_moved or not locked.message.strip():
        plan(locked)
    locked.save()
    return locked


@transaction.atomic
def run_now(schedule: Schedule, asked_at: datetime | None = None) -> Firing:
    """Send the message now, apart from its times. Requests with the same `asked_at` count once."""
    return fire(lock_row(schedule), by_hand=True, asked_at=asked_at)


def fire_due_schedules() -> int:
    """Fire the schedules that are due. The supervisor calls this, on any number of nodes."""
    return timing.fire_due(Schedule.objects.all(), fire, related=("agent__current", "session"))


def fire(schedule: Schedule, *, by_hand: bool = False, asked_at: datetime | None = None) -> Firing:
    """Send the message now, and record the outcome. The caller holds the schedule's lock."""
    now = timezone.now()
    due_at = (asked_at or now) if by_hand else schedule.next_at or now
    firing = Firing(workspace_id=schedule.workspace_id, schedule=schedule, due_at=due_at)
    if not by_hand:
        _move_on(schedule, firing, now)
    schedule.last_at = now
    schedule.save(update_fields=["next_at", "last_at"])
    if fired := schedule.firings.filter(due_at=due_at).first():
        return fired  # each time counts once, also one that was asked for by hand
    if schedule.heartbeat and not by_hand and not has_something_to_do(schedule):
        firing.outcome = Firing.Outcome.NOTHING_TO_DO
    elif not firing.outcome:
        _send(schedule, firing)
    firing.save()
    return firing


def _move_on(schedule: Schedule, firing: Firing, now: datetime) -> None:
    """Set when it is due next. A schedule whose times are no longer valid ends here."""
    try:
        schedule.next_at, firing.missed = timing.advance(schedule, now)
    except Invalid as fault:
        schedule.next_at = None
        firing.outcome, firing.note = Firing.Outcome.FAILED, fault.detail[:300]


def _send(schedule: Schedule, firing: Firing) -> None:
    try:
        with transaction.atomic():
            if schedule.task == Schedule.Task.CONSOLIDATION:
                _consolidate(schedule, firing)
                return
            session = schedule.session or _new_session(schedule, firing)
            check_purses(schedule.workspace_id, [schedule.agent_id, session.pk])
            event = NewEvent(
                type=SessionEvent.Type.USER_MESSAGE,
                payload={"text": schedule.message, "schedule_id": str(schedule.pk)},
                dedupe_key=f"schedule:{firing.pk}",
            )
            accepted = run_queue.accept(session.pk, event, author_id=schedule.created_by_id)
            firing.session_id, firing.run_id = session.pk, accepted.run_id
            firing.outcome = Firing.Outcome.SENT
    except Fault as fault:
        firing.outcome, firing.note = Firing.Outcome.FAILED, fault.detail[:300]


def _consolidate(schedule: Schedule, firing: Firing) -> None:
    """Queue a consolidation of the agent's memory."""
    check_purses(schedule.workspace_id, [schedule.agent_id])
    run = request_consolidation(schedule.agent, schedule.created_by_id)
    firing.session_id, firing.run_id = run.session_id, run.pk
    firing.outcome = Firing.Outcome.SENT


def _new_session(schedule: Schedule, firing: Firing) -> Session:
    agent: Agent = schedule.agent
    made, _ = get_or_create_session(
        agent=agent,
        title=f"{schedule.name} · {firing.due_at.astimezone(UTC):%Y-%m-%d %H:%M}",
        metadata={"schedule_id": str(schedule.pk)},
        created_by_id=schedule.created_by_id,
    )
    return made


def has_something_to_do(schedule: Schedule) -> bool:
    """Return whether the agent's list of things to look after has an entry."""
    reader = Reader(
        workspace_id=schedule.workspace_id,
        agent_id=schedule.agent_id,
        session_id=schedule.session_id,
        user_id=schedule.created_by_id,
    )
    try:
        text = content_of(find_by_path(reader, HEARTBEAT))
    except Fault:
        return False
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("#") for line in lines)
