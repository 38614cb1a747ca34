"""Tools for telling the time and waiting."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from tools_app.exceptions import ToolFailed
from tools_app.registry import Arguments, Category, ToolContext, tool

LONGEST_WAIT = 300


class CurrentTime(Arguments):
    zone: str = Field(
        default="UTC", max_length=64, description="Time zone such as Europe/Berlin, else UTC."
    )


class Wait(Arguments):
    seconds: float = Field(ge=0, le=LONGEST_WAIT, description="How long to wait, up to 300.")


@tool(category=Category.TIME, read_only=True, seconds=5, title="Tell the time")
def current_time(arguments: CurrentTime, context: ToolContext) -> str:
    """Tell the current date and time."""
    try:
        zone = ZoneInfo(arguments.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolFailed(f"No time zone is named {arguments.zone!r}.") from error
    now = datetime.now(UTC).astimezone(zone)
    return f"{now:%A}, {now.isoformat(timespec='seconds')} ({arguments.zone})"


@tool(category=Category.TIME, read_only=True, seconds=LONGEST_WAIT + 5, title="Wait")
def wait(arguments: Wait, context: ToolContext) -> str:
    """Wait for a number of seconds before going on."""
    context.pause(arguments.seconds)
    return f"Waited for {arguments.seconds:g} seconds."
