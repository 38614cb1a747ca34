"""Tests of sessions that message each other concurrently, and of tasks that end during a stop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from django.db import OperationalError

from agents.providers.base import ToolCall
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Claim
from sessions_app.lanes.signals import StopSignal
from sessions_app.models import Session, SubagentSpawn, ToolExecution
from sessions_app.sessions import get_or_create_session
from sessions_app.subagents import peer_sessions
from sessions_app.subagents.spawns import peer_message
from tests.fakes import ScriptedProvider
from tests.sessions_app.approvals.test_approval_races import at_once
from tests.sessions_app.conftest import OWNER, newest, serve
from tests.sessions_app.spawning import agent, words
from tests.sessions_app.stage import E, say
from tests.sessions_app.subagents.test_spawns import child_of, spawn_call

__all__ = ["agent"]

pytestmark = pytest.mark.django_db(transaction=True)
MOMENT = 1.0


class Writer(ScriptedProvider):
    """Sends one message to the session named in the prompt."""

    def __init__(self, *, wait: bool) -> None:
        super().__init__()
        self.wait = wait

    def stream(self, request):
        if request.messages[-1].role != "user" or "to:" not in request.messages[-1].text:
            yield from words("Done.")
            return
        named = request.messages[-1].text.rpartition("to:")[2]
        arguments = {"session": named, "message": "Hello?", "wait": self.wait}
        yield ToolCall(call_id=f"to {named}", name="sessions_send", arguments=arguments)


def run_once(session: Session) -> None:
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    run(claim, OWNER, StopSignal())


@pytest.mark.parametrize("wait", [True, False])
def test_two_sessions_that_message_each_other_concurrently_do_not_deadlock(
    session, agent, principal, monkeypatch, wait
):
    other, _ = get_or_create_session(agent=agent, created_by_id=session.created_by_id)
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: Writer(wait=wait))
    both_hold = threading.Barrier(2)

    def meet(*args, **words):
        """Wait until both hold their first lock, unless it is the same one."""
        with suppress(threading.BrokenBarrierError):
            both_hold.wait(MOMENT)
        return peer_message(*args, **words)

    monkeypatch.setattr(peer_sessions, "peer_message", meet)
    say(session, principal, f"to:{other.pk}")
    say(other, principal, f"to:{session.pk}")

    with ThreadPoolExecutor(2) as pool:
        at_once([partial(run_once, session), partial(run_once, other)], pool)

    errors = [call.error for call in ToolExecution.objects.exclude(error="")]
    assert len(errors) == (1 if wait else 0)
    assert all("waits for a reply from this one" in error for error in errors)


def test_another_turn_of_a_child_is_not_delivered_as_the_result_of_its_task(
    session, principal, script
):
    script([spawn_call()], words("Urgent things first."), words("Seven."), words("It is seven."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    say(child, principal, "Something else!", priority=5)
    run_once(child)
    assert newest(child, E.AGENT_MESSAGE).payload["text"] == "Urgent things first."
    assert SubagentSpawn.objects.get().status == "running"

    run_queue.release(held(child), reason="test")
    serve(child.pk)
    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "It is seven."


def held(child: Session) -> Claim:
    """Return the run that started in the commit which ended the previous one."""
    begun = child.runs.get(status="running")
    return Claim(session_id=child.pk, run_id=begun.pk, epoch=begun.epoch or 0)


def test_a_child_that_has_finished_its_task_is_not_stopped(session, principal, script):
    script([spawn_call()], words("Seven."), words("Talking with a person."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    serve(child.pk)
    SubagentSpawn.objects.update(stop_asked=True)
    say(child, principal, "And what do you think?")
    assert run_queue.claim(child.pk, OWNER)

    run_queue.stop_child(child.pk)

    child.refresh_from_db()
    assert child.status == "running"


def test_a_failing_delivery_does_not_affect_the_child(session, principal, script, monkeypatch):
    script([spawn_call()], words("Seven."), words("It is seven."))
    say(session, principal)
    serve(session.pk)
    child = child_of(session)
    following = say(child, principal, "And then?").run_id

    def fail(child_id: object) -> None:
        raise OperationalError("deadlock detected")

    monkeypatch.setattr("sessions_app.harness.loop.deliver_results_of", fail)

    claim = run(run_queue.claim(child.pk, OWNER), OWNER, StopSignal())

    assert claim
    assert claim.run_id == following
