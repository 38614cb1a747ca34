"""Tools with which an agent schedules messages to its own session."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from pydantic import Field

from core.exceptions import Conflict, Invalid
from sessions_app.models import Schedule, Session
from sessions_app.schedules.schedules import create_schedule
from sessions_app.schedules.timing import zone_of
from tools_app.exceptions import ToolFailed
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

#: A one-time wake-up further ahead must be set up by a person.
MAX_DELAY = timedelta(days=1)


class ScheduleWake(Arguments):
    message: str = Field(
        min_length=1, max_length=10_000, description="The message that you receive when you wake."
    )
    in_seconds: int | None = Field(
        default=None, ge=1, le=86_400, description="Once, after this time."
    )
    at: datetime | None = Field(default=None, description="Once, at this time, within a day.")
    every_seconds: int | None = Field(default=None, ge=60, description="Repeatedly.")
    cron: str = Field(default="", max_length=120, description="By cron, such as `0 9 * * 1-5`.")
    timezone: str = Field(default="UTC", max_length=64, description="For example Europe/Zurich.")


class ScheduleCancel(Arguments):
    id: str = Field(description="The id from schedule_list.")


class ScheduleList(Arguments):
    pass


@tool(category=Category.SESSION, effects=[Effect.SESSIONS], seconds=30, title="Wake up later")
def schedule_wake(arguments: ScheduleWake, context: ToolContext) -> dict[str, Any]:
    """Schedule a message to this session: once, at an interval, or by cron. Choose exactly one."""
    times = [arguments.in_seconds, arguments.at, arguments.every_seconds, arguments.cron]
    if sum(bool(time) for time in times) != 1:
        raise ToolFailed("Set exactly one of in_seconds, at, every_seconds and cron.")
    with transaction.atomic():
        context.fence()
        session = Session.objects.get(pk=context.session_id)
        try:
            schedule = create_schedule(
                workspace_id=context.workspace_id,
                name=arguments.message[:80],
                session=session,
                asked_by=session,
                message=arguments.message,
                timezone=arguments.timezone,
                created_by_id=session.created_by_id,
                **_timing(arguments),
            )
        except (Conflict, Invalid) as fault:
            raise ToolFailed(fault.detail) from None
    return _describe(schedule)


def _timing(arguments: ScheduleWake) -> dict[str, Any]:
    now = timezone.now()
    if arguments.cron:
        return {"kind": Schedule.Kind.CRON, "cron": arguments.cron}
    if arguments.every_seconds:
        return {"kind": Schedule.Kind.INTERVAL, "interval_seconds": arguments.every_seconds}
    moment = arguments.at or now + timedelta(seconds=arguments.in_seconds or 0)
    if timezone.is_naive(moment):
        moment = moment.replace(tzinfo=zone_of(arguments.timezone))
    if moment > now + MAX_DELAY:
        raise ToolFailed(
            "A one-time wake-up must be within a day. Ask a person to schedule a later one."
        )
    return {"kind": Schedule.Kind.ONCE, "next_at": moment}


@tool(category=Category.SESSION, read_only=True, seconds=30, title="List wake-ups")
def schedule_list(arguments: ScheduleList, context: ToolContext) -> list[dict[str, Any]]:
    """List the scheduled wake-ups of this session."""
    return [_describe(schedule) for schedule in _pending(context).order_by("next_at")[:50]]


@tool(category=Category.SESSION, idempotent=True, seconds=30, title="Cancel a wake-up")
def schedule_cancel(arguments: ScheduleCancel, context: ToolContext) -> str:
    """Cancel a wake-up that you scheduled."""
    try:
        schedule_id = UUID(arguments.id)
    except ValueError:
        raise ToolFailed(f"{arguments.id!r} is not the id of a wake-up.") from None
    with transaction.atomic():
        rows = _pending(context).filter(pk=schedule_id, asked_by_id=context.session_id)
        # The scheduler also locks the schedule before its session; another order could deadlock.
        rows.select_for_update(no_key=True).first()
        context.fence()
        if not rows.update(next_at=None):
            raise ToolFailed("You did not schedule a wake-up with this id, or it is over.")
    return "Cancelled."


def _pending(context: ToolContext) -> Any:
    rows = Schedule.objects.for_workspace(context.workspace_id)
    return rows.filter(session_id=context.session_id, next_at__isnull=False)


def _describe(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": str(schedule.pk),
        "message": schedule.message,
        "kind": schedule.kind,
        "next_at": schedule.next_at.isoformat(timespec="seconds") if schedule.next_at else None,
    }
