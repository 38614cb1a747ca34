"""Tests that the worker cluster survives a SIGKILL of any of its processes, idle or busy."""

from __future__ import annotations

import os
import signal
from functools import partial

import psutil

from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tests.faults.conftest import eventually

E = SessionEvent.Type


def send(session: Session, text: str = "say hello"):
    return run_queue.accept(
        session.pk, NewEvent(type=E.USER_MESSAGE, payload={"text": text})
    ).run_id


def is_answered(run_id) -> bool:
    return Run.objects.get(pk=run_id).status == "completed"


def is_running(run_id) -> bool:
    return Run.objects.get(pk=run_id).status == "running"


def test_the_cluster_goes_on_after_a_kill_of_each_of_its_processes(
    workers, supervisor, demo_session, demo_agent
):
    workers.start(WORKERS="2")
    workers.wait_ready()
    assert len(workers.parts()) == 4
    for nth in range(4):
        victim = workers.parts()[nth]
        victim.kill()
        victim.wait()
        run_id = send(demo_session)
        eventually(partial(is_answered, run_id))
        eventually(lambda: len(workers.parts()) == 4)

    # Busy: the process that dies is executing a run.
    for _ in range(2):
        session, _ = get_or_create_session(agent=demo_agent)
        run_id = send(session, "wait for 1 seconds")
        eventually(partial(is_running, run_id))
        for process in workers.parts()[:2]:
            process.kill()
        eventually(partial(is_answered, run_id))
        eventually(lambda: len(workers.parts()) == 4)


def test_a_dead_parent_leaves_no_orphans(workers, db):
    workers.start(WORKERS="1")
    workers.wait_ready()
    family = [workers.sentinel(), *workers.parts()]

    os.kill(workers.process.pid, signal.SIGKILL)

    psutil.wait_procs(family, timeout=10)
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)


def test_a_dead_sentinel_ends_the_cluster_so_that_it_can_be_restarted(workers, db):
    workers.start(WORKERS="1")
    workers.wait_ready()
    parts = workers.parts()

    workers.sentinel().kill()

    workers.process.wait(timeout=10)
    psutil.wait_procs(parts, timeout=10)
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in parts)


def test_a_terminated_cluster_releases_its_runs(workers, demo_session):
    workers.start(WORKERS="1")
    workers.wait_ready()
    run_id = send(demo_session, "wait for 60 seconds")
    eventually(lambda: Run.objects.get(pk=run_id).status == "running")
    eventually(lambda: demo_session.executions.filter(state="running").exists())

    os.killpg(workers.process.pid, signal.SIGTERM)
    workers.process.wait(timeout=10)

    handed_back = Run.objects.get(pk=run_id)
    assert (handed_back.status, handed_back.losses) == ("queued", 0)
    assert handed_back.session.status == "rescheduling"


def test_a_worker_suspended_past_its_lease_writes_nothing_afterwards(
    workers, supervisor, demo_session
):
    workers.start(WORKERS="1", LEASE_SECONDS="3", HEARTBEAT_SECONDS="0.5")
    run_id = send(demo_session, 'wait for 2 seconds and then use record with {"text": "once"}')
    eventually(lambda: demo_session.executions.filter(state="running").exists())
    stopped = workers.parts()[0]

    stopped.suspend()
    eventually(lambda: Run.objects.get(pk=run_id).status == "queued")
    before = demo_session.events.count()
    stopped.resume()
    # The same process may claim the run again: under a new epoch, from the log.
    eventually(lambda: is_answered(run_id))

    late = demo_session.events.filter(run_id=run_id, seq__gt=before)
    assert late.first().type == "session.status_changed"
    assert workers.effects == ["once"]
    results = demo_session.events.filter(type=E.AGENT_TOOL_RESULT)
    assert results.count() == demo_session.executions.count()
