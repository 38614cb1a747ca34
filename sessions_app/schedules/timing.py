"""When schedules and triggers are due, by interval or cron in a time zone, and firing what is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from django.db import models, transaction
from django.utils import timezone as clock

from core.db import for_each, lock_row
from core.exceptions import Invalid

SHORTEST = timedelta(seconds=60)
LONGEST = timedelta(days=366)
#: Missed times are counted no further than this.
MAX_MISSED = 10_000
BATCH = 50


class Timetable(Protocol):
    """The columns that a schedule and a trigger have in common."""

    kind: str
    interval_seconds: int | None
    cron: str
    timezone: str
    next_at: datetime | None
    paused_at: datetime | None


def repetition(times: Timetable) -> Literal["interval", "cron"] | None:
    """Return how the times repeat. A trigger of kind `schedule` has either a cron or an interval."""
    if times.kind == "cron" or (times.kind == "schedule" and times.cron):
        return "cron"
    return "interval" if times.kind in ("interval", "schedule") else None


# ── Validation ───────────────────────────────────────────────────────────────────────────────────


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of this name, or raise Invalid."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(f"{name!r} is not a time zone. Use a name like Europe/Zurich.") from None


def check_cron(text: str, zone: str) -> None:
    """Raise unless this is a cron expression of five fields that is due again."""
    try:
        CronSim(text, datetime.now(tz=zone_of(zone)))
    except CronSimError as error:
        raise Invalid(f"{text!r} is not a cron expression: {error}.") from None
    if len(text.split()) != 5:
        raise Invalid("A cron expression has five fields: minute, hour, day, month, weekday.")


def check_times(times: Timetable) -> None:
    """Raise unless the time zone, and the interval or cron expression, are valid."""
    zone_of(times.timezone)
    match repetition(times):
        case "cron":
            check_cron(times.cron, times.timezone)
        case "interval":
            seconds = times.interval_seconds or 0
            if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
                raise Invalid("An interval is from 60 seconds to a year.")
        case None:
            pass


# ── The next time ────────────────────────────────────────────────────────────────────────────────


def next_time(times: Timetable, after: datetime) -> datetime | None:
    """Return the first time after this one; None when there is none."""
    match repetition(times):
        case "interval":
            return after + timedelta(seconds=times.interval_seconds or 0)
        case "cron":
            moments = CronSim(times.cron, after.astimezone(zone_of(times.timezone)))
            found = next(moments, None)
            return found.astimezone(UTC) if found else None
        case _:
            return None


def advance(times: Timetable, now: datetime) -> tuple[datetime | None, int]:
    """Return the next time in the future, and how many were missed on the way there."""
    due, missed = times.next_at or now, 0
    if repetition(times) == "interval" and times.interval_seconds:
        step = times.interval_seconds
        missed = int((now - due).total_seconds() // step)
        return due + timedelta(seconds=step * (missed + 1)), missed
    following = next_time(times, due)
    while following and following <= now and missed < MAX_MISSED:
        following, missed = next_time(times, following), missed + 1
    return following, missed


def upcoming(times: Timetable, now: datetime, count: int = 3) -> list[datetime]:
    """Return the next times, as far as there are any."""
    if repetition(times) is None:
        return [times.next_at] if times.next_at and times.next_at > now else []
    found: list[datetime] = []
    moment: datetime | None = now
    while len(found) < count and (moment := next_time(times, moment or now)):
        found.append(moment)
    return found


def describe(times: Timetable) -> str:
    """Describe in words when it is due."""
    match repetition(times):
        case "interval":
            return f"Every {_duration(times.interval_seconds or 0)}"
        case "cron":
            text = CronSim(times.cron, datetime.now(tz=UTC)).explain()
            return f"{text} ({times.timezone})"
        case _:
            return "Once"


def _duration(seconds: int) -> str:
    """Return `15 minutes`, `hour` or `2 days`: in the largest unit that divides it."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= size and seconds % size == 0:
            count = seconds // size
            return unit if count == 1 else f"{count} {unit}s"
    return f"{seconds} seconds"


# ── Rows that are due ────────────────────────────────────────────────────────────────────────────

Row = TypeVar("Row", bound=models.Model)


def fire_due(
    rows: models.QuerySet[Row], fire: Callable[[Row], object], *, related: tuple[str, ...] = ()
) -> int:
    """Fire each due row once, in a separate transaction, and return how many there were.

    Any number of processes may do so at once: a row that another one fires is skipped.
    """

    @transaction.atomic
    def fire_if_due(pk: object) -> bool:
        free = _due(rows).select_for_update(skip_locked=True, of=("self",), no_key=True)
        row = free.select_related(*related).filter(pk=pk).first()
        if row is None:
            return False
        fire(row)
        return True

    due = _due(rows).order_by("next_at").values_list("pk", flat=True)
    return len(for_each(list(due[:BATCH]), fire_if_due))


def _due(rows: models.QuerySet[Row]) -> models.QuerySet[Row]:
    return rows.filter(paused_at=None, next_at__lte=clock.now())


@transaction.atomic
def pause(row: models.Model) -> None:
    """Fire nothing until the schedule or trigger is resumed."""
    lock_row(row)
    row.paused_at = clock.now()  # type: ignore[attr-defined]
    row.save(update_fields=["paused_at"])


@transaction.atomic
def resume(row: models.Model) -> None:
    """Continue from now; missed times are not made up for. One that was not paused is unchanged."""
    locked = lock_row(row)
    next_at = locked.next_at  # type: ignore[attr-defined]
    if locked.paused_at and repetition(locked):  # type: ignore[arg-type, attr-defined]
        next_at = next_time(locked, clock.now())  # type: ignore[arg-type]
    row.paused_at, row.next_at = None, next_at  # type: ignore[attr-defined]
    row.save(update_fields=["paused_at", "next_at"])
