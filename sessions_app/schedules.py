"""Later wake-ups: asked for by people and agents, bounded, and fired once each by the supervisor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.models import Agent
from config.faults import Conflict, Fault, Invalid
from memory.documents import content_of, find_by_path
from memory.reader import Reader
from sessions_app import lanes
from sessions_app.log import NewEvent
from sessions_app.models import Firing, Schedule, Session, SessionEvent
from sessions_app.row_by_row import for_each
from sessions_app.sessions import get_or_create_session
from sessions_app.timing import LONGEST, SHORTEST, advance, check_cron, next_time, zone_of
from tenants.models import OwnedQuerySet
from tenants.rows import hold
from tenants.spending import check_purses

#: An agent's own wishes are few, so that no loop of wake-ups can run away.
MOST_PER_SESSION = 3
MOST_PER_WORKSPACE = 1_000
AT_ONCE = 50
#: What says when it is due.
WHEN = ("kind", "next_at", "interval_seconds", "cron", "timezone")
#: What a heartbeat looks into: a document that lists what to look after.
HEARTBEAT_PATH = "HEARTBEAT.md"


def plan(schedule: Schedule, now: datetime | None = None) -> Schedule:
    """Check what was asked for, and set when it is due first."""
    now = now or timezone.now()
    zone_of(schedule.timezone)
    if not schedule.message.strip():
        raise Invalid("A schedule needs a message to send.")
    match schedule.kind:
        case Schedule.Kind.ONCE:
            if schedule.next_at is None or not now < schedule.next_at <= now + LONGEST:
                raise Invalid("`at` is a time to come, within a year.")
        case Schedule.Kind.INTERVAL:
            seconds = schedule.interval_seconds or 0
            if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
                raise Invalid("An interval is from 60 seconds to a year.")
            schedule.next_at = next_time(schedule, now)
        case Schedule.Kind.CRON:
            check_cron(schedule.cron, schedule.timezone)
            schedule.next_at = next_time(schedule, now)
        case _:
            raise Invalid(f"A schedule is one of {', '.join(Schedule.Kind.values)}.")
    return schedule


def _aim(schedule: Schedule) -> Schedule:
    """Settle whom it is for. A session knows its agent; without one the agent must be named."""
    if schedule.session is None:
        if schedule.agent_id is None:
            raise Invalid("Name the agent, or a session.")
        return schedule
    if schedule.session.about_id:
        raise Invalid("A talk with the builder takes no schedule: a person says what it changes.")
    schedule.agent = schedule.session.agent
    return schedule


@transaction.atomic
def create_schedule(*, workspace_id: UUID, **fields: Any) -> Schedule:
    """A new schedule, within what one session and one workspace may have."""
    schedule = plan(_aim(Schedule(workspace_id=workspace_id, **fields)))
    active = Schedule.objects.filter(workspace_id=workspace_id, next_at__isnull=False)
    if active.count() >= MOST_PER_WORKSPACE:
        raise Conflict(f"A workspace has at most {MOST_PER_WORKSPACE:,} schedules.")
    if (
        schedule.asked_by_id
        and active.filter(asked_by=schedule.asked_by_id).count() >= MOST_PER_SESSION
    ):
        raise Conflict(
            f"A session asks for at most {MOST_PER_SESSION} later wake-ups at a time. Cancel one first."
        )
    schedule.save()
    return schedule


@transaction.atomic
def change_schedule(schedule: Schedule, **fields: Any) -> Schedule:
    """Say anew what is sent, or when. Who changes only the words does not move the next time."""
    locked = hold(schedule)
    wanted = {**fields, "next_at": fields.get("next_at") or locked.next_at}
    is_moved = any(getattr(locked, name) != wanted[name] for name in WHEN if name in wanted)
    for name, value in wanted.items():
        setattr(locked, name, value)
    _aim(locked)
    if is_moved or not locked.message.strip():
        plan(locked)
    locked.save()
    return locked


@transaction.atomic
def run_now(schedule: Schedule, asked_at: datetime | None = None) -> Firing:
    """Send it now, beside its times. What was asked for at the same moment is one wish."""
    return fire(hold(schedule), by_hand=True, asked_at=asked_at)


@transaction.atomic
def pause(schedule: Schedule) -> None:
    hold(schedule)
    schedule.paused_at = timezone.now()
    schedule.save(update_fields=["paused_at"])


@transaction.atomic
def resume(schedule: Schedule) -> None:
    """Go on from now; what would have been due meanwhile is not made up for. What goes on stays."""
    locked = hold(schedule)
    schedule.paused_at, schedule.next_at = None, locked.next_at
    if locked.paused_at and locked.kind != Schedule.Kind.ONCE:
        schedule.next_at = next_time(locked, timezone.now())
    schedule.save(update_fields=["paused_at", "next_at"])


def fire_due() -> int:
    """Fire what is due, each in a transaction of its own. For the supervisor, on any node."""
    due = _due().order_by("next_at").values_list("pk", flat=True)
    return len(for_each(list(due[:AT_ONCE]), _fire_if_due))


def _due() -> OwnedQuerySet:
    return Schedule.objects.filter(paused_at=None, next_at__lte=timezone.now())


@transaction.atomic
def _fire_if_due(pk: UUID) -> bool:
    """False: somebody else fires it, or has."""
    mine = _due().select_for_update(skip_locked=True, of=("self",), no_key=True)
    due = mine.select_related("agent__current", "session").filter(pk=pk).first()
    if due is None:
        return False
    fire(due)
    return True


def fire(schedule: Schedule, *, by_hand: bool = False, asked_at: datetime | None = None) -> Firing:
    """Send the message now, and say what came of it. The caller holds the schedule's row."""
    now = timezone.now()
    due_at = (asked_at or now) if by_hand else schedule.next_at or now
    firing = Firing(workspace_id=schedule.workspace_id, schedule=schedule, due_at=due_at)
    if not by_hand:
        _move_on(schedule, firing, now)
    schedule.last_at = now
    schedule.save(update_fields=["next_at", "last_at"])
    if done := schedule.firings.filter(due_at=due_at).first():
        return done  # each time counts once, also one that somebody asked for by hand
    if schedule.heartbeat and not by_hand and not has_something_to_do(schedule):
        firing.outcome = Firing.Outcome.NOTHING_TO_DO
    elif not firing.outcome:
        _send(schedule, firing)
    firing.save()
    return firing


def _move_on(schedule: Schedule, firing: Firing, now: datetime) -> None:
    """Set when it is due next. One that makes no sense any more, as its time zone is gone, ends here."""
    try:
        schedule.next_at, firing.missed = advance(schedule, now)
    except Invalid as fault:
        schedule.next_at = None
        firing.outcome, firing.note = Firing.Outcome.FAILED, fault.detail[:300]


def _send(schedule: Schedule, firing: Firing) -> None:
    try:
        with transaction.atomic():
            session = schedule.session or _new_session(schedule, firing)
            check_purses(schedule.workspace_id, [schedule.agent_id, session.pk])
            event = NewEvent(
                type=SessionEvent.Type.USER_MESSAGE,
                payload={"text": schedule.message, "schedule_id": str(schedule.pk)},
                dedupe_key=f"schedule:{firing.pk}",
            )
            accepted = lanes.accept(session.pk, event, author_id=schedule.created_by_id)
            firing.session_id, firing.run_id = session.pk, accepted.run_id
            firing.outcome = Firing.Outcome.SENT
    except Fault as fault:
        firing.outcome, firing.note = Firing.Outcome.FAILED, fault.detail[:300]


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
    """Whether the agent keeps a list of things to look after, and something is on it."""
    reader = Reader(
        workspace_id=schedule.workspace_id,
        agent_id=schedule.agent_id,
        session_id=schedule.session_id,
        user_id=schedule.created_by_id,
    )
    try:
        text = content_of(find_by_path(reader, HEARTBEAT_PATH))
    except Fault:
        return False
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith("#") for line in lines)
