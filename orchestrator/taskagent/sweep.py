"""What the supervisor does for tasks: close the places that no workflow needs any more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from uuid import UUID

from orchestrator.models import Workflow
from orchestrator.taskagent import place as places
from orchestrator.taskagent.place import CLOSED, TaskPlace
from sessions_app.row_by_row import for_each

AT_ONCE = 1_000


def unneeded() -> list[TaskPlace]:
    """Places on this machine whose workflow is over and that nobody asked to keep, or not longer."""
    noted = places.noted()
    if not noted:
        return []
    going_on = _going_on(noted)
    found = [places.read(id) for id in noted if id not in going_on]
    return [place for place in found if place and place.keep_until <= time.time()]


def close_all(unneeded: Iterable[TaskPlace]) -> None:
    """What cannot be closed, as its container stays, is tried again with the next look."""
    for_each(unneeded, places.close)


def needed(ids: Iterable[UUID]) -> set[UUID]:
    """Of these sandboxes, those of tasks that go on or are kept."""
    asked = list(ids)
    going_on = _going_on(asked)
    kept = {id for id in asked if (p := places.read(id)) and p.keep_until > time.time()}
    return going_on | kept


def forget_erased() -> int:
    """Take away what was collected for workflows that are forgotten. How many there were."""
    forgotten = 0
    for some in _batches(places.noted(CLOSED)):
        there = set(Workflow.objects.filter(pk__in=some).values_list("pk", flat=True))
        for id in set(some) - there:
            if place := places.read(id, CLOSED):
                places.forget(place.workspace_id, place.workflow_id)
                forgotten += 1
    return forgotten


def _going_on(ids: list[UUID]) -> set[UUID]:
    rows = Workflow.objects.filter(pk__in=ids).exclude(status__in=Workflow.OVER)
    return set(rows.values_list("pk", flat=True))


def _batches(ids: list[UUID]) -> Iterator[list[UUID]]:
    for start in range(0, len(ids), AT_ONCE):
        yield ids[start : start + AT_ONCE]
