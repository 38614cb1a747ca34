"""Which commands of tasks run on this machine, for who stops or inspects it without a database."""

from __future__ import annotations

from orchestrator.taskagent import place as places
from tools_app.sandbox.kept.control import end_all, is_alive
from tools_app.sandbox.kept.record import Record

#: Whoever stops Switchyard waits no longer than this for a command; then it is killed.
PATIENCE_SECONDS = 2.0


def running() -> list[Record]:
    """Those that have a keeper now."""
    return [record for record in _ordered() if is_alive(record)]


def end_running(reason: str) -> int:
    """End them all, and keep from beginning what was only ordered. How many ran."""
    return end_all(_ordered(), reason, seconds=PATIENCE_SECONDS)


def _ordered() -> list[Record]:
    found = [places.read(id) for id in places.noted()]
    return [record for place in found if place for record in place.records()]
