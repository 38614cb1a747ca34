"""Measures whether every approval is answered once when several answers arrive at the same moment.

Each approval gets four answers at once, two of each kind, from threads with separate connections.
Then approvals and calls are counted: exactly the allowed calls may run.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

# Every thread keeps its connection while it waits for the others.
os.environ["DATABASE_POOL"] = "20"

from bench import installation

#: The answers that each approval gets.
AT_ONCE = 4
#: Races that run in parallel, each over separate approvals.
SIDE_BY_SIDE = 4


def ask(sessions: list, each: int) -> list:
    """Create waiting calls with their approvals, as runs would leave them."""
    from sessions_app.approvals.approvals import approvals_for
    from sessions_app.models import Approval, Run, Session, ToolExecution

    asked = []
    for session in sessions:
        run = Run.objects.create(
            workspace_id=session.workspace_id, session=session, status=Run.Status.COMPLETED
        )
        calls = [
            ToolExecution(
                workspace_id=session.workspace_id,
                session=session,
                run=run,
                tool_use_id=f"{run.pk.hex}-{nth}",
                name="current_time",
                input={},
                state=ToolExecution.State.AWAITING_APPROVAL,
            )
            for nth in range(each)
        ]
        ToolExecution.objects.bulk_create(calls)
        asked += Approval.objects.bulk_create(approvals_for(calls, session.agent_id))
    Session.objects.filter(pk__in=[s.pk for s in sessions]).update(status="requires_action")
    return asked


def race(asked: list) -> tuple[Counter, list[float]]:
    """Answer every approval; return how many answers each accepted, and the time of each answer."""
    from django.db import connection

    from sessions_app.approvals.approvals import ApprovalAnswer, answer_approval
    from sessions_app.exceptions import AlreadyAnswered
    from sessions_app.runtime import system_principal

    principal = system_principal(asked[0].workspace_id)
    taken: Counter[UUID] = Counter()
    times: list[float] = []
    lock = threading.Lock()
    readies = [threading.Barrier(AT_ONCE) for _ in range(SIDE_BY_SIDE)]

    def answer(group: int, decision: Literal["allow", "deny"]) -> None:
        for one in asked[group::SIDE_BY_SIDE]:
            readies[group].wait()
            began, first = time.perf_counter(), 1
            try:
                answer_approval(one, ApprovalAnswer(decision=decision), principal)
            except AlreadyAnswered:
                first = 0
            with lock:
                taken[one.pk] += first
                times.append(installation.milliseconds_since(began))
        connection.close()

    answers = [(n, d) for n in range(SIDE_BY_SIDE) for d in ["allow", "deny"] * (AT_ONCE // 2)]
    with ThreadPoolExecutor(len(answers)) as pool:
        list(pool.map(lambda one: answer(*one), answers))
    return taken, times


def main() -> None:
    options = installation.parse_options(__doc__, approvals=10_000, sessions=100)
    with installation.running():
        from sessions_app.models import Approval, ToolExecution

        sessions = installation.make_sessions(options.sessions)
        asked = ask(sessions, options.approvals // options.sessions)
        began = time.monotonic()
        taken, times = race(asked)
        print(
            f"{len(asked):,} approvals, {len(times):,} answers in {time.monotonic() - began:.0f} s"
        )
        print(
            f"answered once: {sum(n == 1 for n in taken.values()):,}   an answer {installation.spread(times)}"
        )
        statuses = Counter(Approval.objects.values_list("status", flat=True))
        states = Counter(ToolExecution.objects.values_list("state", flat=True))
        print(f"approvals {dict(statuses)}   calls {dict(states)}")
        assert all(n == 1 for n in taken.values())
        assert (states["requested"], states["denied"]) == (statuses["allowed"], statuses["denied"])


if __name__ == "__main__":
    main()
