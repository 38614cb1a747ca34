"""The tools by which an agent asks to be woken later."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from pydantic import Field

from config.faults import Conflict, Invalid, ToolFailed
from sessions_app.models import Schedule, Session
from sessions_app.schedules import create_schedule
from sessions_app.timing import zone_of
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

#: An agent that asks for more should let a person set it up.
LONGEST_DELAY = timedelta(days=1)


class ScheduleWake(Arguments):
    message: str = Field(
        min_length=1, max_length=10_000, description="What you will be told when you wake."
    )
    in_seconds: int | None = Field(default=None, ge=1, le=86_400, description="Once, after this.")
    at: datetime | None = Field(default=None, description="Once, at this time, within a day.")
    every_seconds: int | None = Field(default=None, ge=60, description="Again and again.")
    cron: str = Field(default="", max_length=120, description="By cron, such as `0 9 * * 1-5`.")
    timezone: str = Field(default="UTC", max_length=64, description="Such as Europe/Zurich.")


class ScheduleCancel(Arguments):
    id: str = Field(description="As schedule_list shows it.")


class ScheduleList(Arguments):
    pass


@tool(category=Category.SESSION, effects=[Effect.SESSIONS], seconds=30, title="Wake up later")
def schedule_wake(arguments: ScheduleWake, context: ToolContext) -> dict[str, Any]:
    """Ask to be woken in this session later: once, at an interval, or by cron. Say exactly one of them."""
    asked = [arguments.in_seconds, arguments.at, arguments.every_seconds, arguments.cron]
    if sum(bool(one) for one in asked) != 1:
        raise ToolFailed("Say exactly one of in_seconds, at, every_seconds and cron.")
    with transaction.atomic():
        context.fence()
        session = Session.objects.get(pk=context.session_id)
        try:
            made = create_schedule(
                workspace_id=context.workspace_id,
                name=arguments.message[:80],
                session=session,
                asked_by=session,
                message=arguments.message,
                timezone=arguments.timezone,
                created_by_id=session.created_by_id,
                **_when(arguments),
            )
        except (Conflict, Invalid) as fault:
            raise ToolFailed(fault.detail) from None
    return _shown(made)


def _when(arguments: ScheduleWake) -> dict[str, Any]:
    now = timezone.now()
    if arguments.cron:
        return {"kind": Schedule.Kind.CRON, "cron": arguments.cron}
    if arguments.every_seconds:
        return {"kind": Schedule.Kind.INTERVAL, "interval_seconds": arguments.every_seconds}
    moment = arguments.at or now + timedelta(seconds=arguments.in_seconds or 0)
    if timezone.is_naive(moment):
        moment = moment.replace(tzinfo=zone_of(arguments.timezone))
    if moment > now + LONGEST_DELAY:
        raise ToolFailed("Once means within a day. Ask a person to set up what is later.")
    return {"kind": Schedule.Kind.ONCE, "next_at": moment}


@tool(category=Category.SESSION, read_only=True, seconds=30, title="List wake-ups")
def schedule_list(arguments: ScheduleList, context: ToolContext) -> list[dict[str, Any]]:
    """List the later wake-ups of this session."""
    return [_shown(one) for one in _own(context).order_by("next_at")[:50]]


@tool(category=Category.SESSION, idempotent=True, seconds=30, title="Cancel a wake-up")
def schedule_cancel(arguments: ScheduleCancel, context: ToolContext) -> str:
    """Cancel a later wake-up that you asked for."""
    try:
        wanted = UUID(arguments.id)
    except ValueError:
        raise ToolFailed(f"{arguments.id!r} is not the id of a wake-up.") from None
    with transaction.atomic():
        found = _own(context).filter(pk=wanted, asked_by_id=context.session_id)
        # The schedule before its session, as whoever fires it: else each could wait for the other.
        found.select_for_update(no_key=True).first()
        context.fence()
        if not found.update(next_at=None):
            raise ToolFailed("You have not asked for such a wake-up, or it is over.")
    return "Cancelled."


def _own(context: ToolContext) -> Any:
    rows = Schedule.objects.for_workspace(context.workspace_id)
    return rows.filter(session_id=context.session_id, next_at__isnull=False)


def _shown(schedule: Schedule) -> dict[str, Any]:
    return {
        "id": str(schedule.pk),
        "message": schedule.message,
        "kind": schedule.kind,
        "next_at": schedule.next_at.isoformat(timespec="seconds") if schedule.next_at else None,
    }
