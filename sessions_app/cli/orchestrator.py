"""`agent orchestrator`: claims and runs due sessions in this process, without any worker."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now

from agents.definitions import find_agent
from sessions_app import lanes, local_lane
from sessions_app.cli.desk import Desk
from sessions_app.hearing import listen
from sessions_app.models import Run, Session
from sessions_app.wake import CHANNEL
from tenants.off_loop import let_go

Status = Session.Status
#: How long a watching loop sleeps when nothing rings; runs that are due later are found so.
IDLE_SECONDS = 1.0


def orchestrate(desk: Desk) -> None:
    """Cycle until there is nothing to do, the cycles are used up, or Ctrl-C, as was asked."""
    asked = desk.asked
    agent_id = find_agent(desk.workspace_id, asked["agent"]).pk if asked["agent"] else None
    repeats = asked["watch"] or asked["stop_when_idle"] or asked["max_cycles"]
    limit = asked["max_cycles"] or (None if repeats else 1)
    cycles, served = 0, 0
    with suppress(KeyboardInterrupt), listen(CHANNEL) as listener:
        while limit is None or cycles < limit:
            found = cycle(desk, agent_id)
            cycles, served = cycles + 1, served + found
            if found:
                continue
            if asked["stop_when_idle"] or not asked["watch"]:
                break
            let_go()
            for _ in listener.notifies(timeout=IDLE_SECONDS, stop_after=1):
                pass
    desk.say(f"{served} runs in {cycles} cycles.", runs=served, cycles=cycles)


def cycle(desk: Desk, agent_id: UUID | None) -> int:
    """Look once, and run what is due. Answers with the number of runs."""
    lanes.reap()
    runs: list[UUID] = []
    for session_id in due_sessions(desk.workspace_id, agent_id):
        runs += local_lane.serve(lanes.claim(session_id, local_lane.owner()))
    for run in Run.objects.filter(pk__in=runs).order_by("started_at"):
        desk.say(
            f"{run.session_id}  run {run.pk}  {run.status} {run.stop_reason}".rstrip(),
            session_id=run.session_id,
            run_id=run.pk,
            status=run.status,
            stop_reason=run.stop_reason,
        )
    return len(runs)


def due_sessions(workspace_id: UUID, agent_id: UUID | None) -> list[UUID]:
    """Sessions with a run that could start now, the most urgent first."""
    rests = Q(session__status__in=[Status.IDLE, Status.RESCHEDULING])
    answered = Q(session__status=Status.REQUIRES_ACTION, resumes=True)
    due = Run.objects.for_workspace(workspace_id).filter(
        rests | answered,
        Q(not_before=None) | Q(not_before__lte=Now()),
        status=Run.Status.QUEUED,
    )
    if agent_id:
        due = due.filter(session__agent=agent_id)
    ids = due.order_by("-priority", "created_at").values_list("session_id", flat=True)
    return list(dict.fromkeys(ids))
