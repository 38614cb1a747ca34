"""When a schedule is due next: once, after an interval, or by cron in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from config.faults import Invalid

if TYPE_CHECKING:
    from sessions_app.models import Schedule

SHORTEST = timedelta(seconds=60)
LONGEST = timedelta(days=366)
#: Times that were missed are counted no further than this.
MOST_MISSED = 10_000


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"{name!r} is not a time zone like Europe/Zurich.") from None


def check_cron(text: str, zone: str) -> None:
    """Raise unless this is a cron expression that is due again, and not more than once a minute."""
    try:
        CronSim(text, datetime.now(tz=zone_of(zone)))
    except CronSimError as error:
        raise Invalid(f"{text!r} is not a cron expression: {error}.") from None
    if len(text.split()) != 5:
        raise Invalid("A cron expression has five fields: minute, hour, day, month, weekday.")


def next_time(schedule: Schedule, after: datetime) -> datetime | None:
    """The first time after this one; None when there is none."""
    match schedule.kind:
        case "interval":
            return after + timedelta(seconds=schedule.interval_seconds or 0)
        case "cron":
            moments = CronSim(schedule.cron, after.astimezone(zone_of(schedule.timezone)))
            found = next(moments, None)
            return found.astimezone(UTC) if found else None
        case _:
            return None


def advance(schedule: Schedule, now: datetime) -> tuple[datetime | None, int]:
    """The next time that is still to come, and how many were missed on the way there."""
    due, missed = schedule.next_at or now, 0
    if schedule.kind == "interval" and schedule.interval_seconds:
        step = schedule.interval_seconds
        missed = int((now - due).total_seconds() // step)
        return due + timedelta(seconds=step * (missed + 1)), missed
    following = next_time(schedule, due)
    while following and following <= now and missed < MOST_MISSED:
        following, missed = next_time(schedule, following), missed + 1
    return following, missed


def upcoming(schedule: Schedule, now: datetime, count: int = 3) -> list[datetime]:
    """The next times, as far as there are any."""
    if schedule.kind == "once":
        return [schedule.next_at] if schedule.next_at and schedule.next_at > now else []
    found: list[datetime] = []
    moment: datetime | None = now
    while len(found) < count and (moment := next_time(schedule, moment or now)):
        found.append(moment)
    return found


def describe(schedule: Schedule) -> str:
    """When it is due, in plain words."""
    match schedule.kind:
        case "interval":
            return f"Every {_span(schedule.interval_seconds or 0)}"
        case "cron":
            words = CronSim(schedule.cron, datetime.now(tz=UTC)).explain()
            return f"{words} ({schedule.timezone})"
        case _:
            return "Once"


def _span(seconds: int) -> str:
    """`15 minutes`, `hour`, `2 days`: in the largest unit that comes out even."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size and seconds % size == 0:
            count = seconds // size
            return unit if count == 1 else f"{count} {unit}s"
    return f"{seconds} seconds"
