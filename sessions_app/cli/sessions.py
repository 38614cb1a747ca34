"""`agent session …` and `agent wake`: everything that a session can be told or asked."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from sessions_app import runtime
from sessions_app.cli.desk import Desk
from sessions_app.doors import accept_event
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.queue import list_queue
from sessions_app.waiting import OVER, wait_for_run

E = SessionEvent.Type
#: One wait for a run; more follow until it is over or the time is up.
WAIT_SECONDS = 60.0
WAITS = 2  #: The exit code when somebody has to answer first.


def create(desk: Desk) -> None:
    """Make a session, or find the one of this key, and say its id."""
    session, is_new = runtime.get_or_create_session(
        desk.asked["agent"],
        desk.asked["key"],
        principal=desk.principal,
        environment=desk.asked["environment"],
        title=desk.asked["title"],
        outcome=desk.asked["outcome"],
    )
    desk.say(str(session.pk), id=session.pk, created=is_new)


def send(desk: Desk) -> None:
    """Send a message; with --wait, say the answer."""
    admitted = runtime.append_message(
        desk.session.pk,
        desk.asked["message"],
        principal=desk.principal,
        on_busy=desk.asked["on_busy"],
    )
    if not desk.asked["wait"] or admitted.run_id is None:
        desk.say(str(admitted.run_id), seq=admitted.seq, run_id=admitted.run_id)
        return
    run = _wait(admitted.run_id, desk.asked["timeout"])
    text = _answer(run)
    desk.say(text, seq=admitted.seq, run_id=run.pk, status=run.status, text=text, usage=run.usage)


def _wait(run_id: UUID, seconds: float | None) -> Run:
    left = seconds if seconds is not None else float("inf")
    run = wait_for_run(run_id, min(left, WAIT_SECONDS))
    while run.status not in OVER and (left := left - WAIT_SECONDS) > 0:
        run = wait_for_run(run_id, min(left, WAIT_SECONDS))
    if run.status not in OVER:
        raise CommandError(f"The run {run.pk} is still {run.status}.")
    return run


def _answer(run: Run) -> str:
    """What the agent said, or an error that says why it did not."""
    if run.stop_reason == "requires_action":
        calls = ToolExecution.objects.open().filter(session=run.session_id).order_by("id")
        named = ", ".join(f"{call.tool_use_id} ({call.name})" for call in calls if call.waits)
        raise CommandError(f"The run waits for an answer to {named}.", returncode=WAITS)
    if run.status != Run.Status.COMPLETED or run.result is None:
        said = (run.error or {}).get("message") or run.stop_reason
        raise CommandError(f"The run is {run.status}: {said}")
    return str(run.result["text"])


def interrupt(desk: Desk) -> None:
    """Stop what runs or waits for an answer."""
    run_id = _tell(desk, E.USER_INTERRUPT, {"note": desk.asked["note"]})
    desk.say(str(run_id or "Nothing was running."), run_id=run_id)


def compact(desk: Desk) -> None:
    """Have the context compacted; with --wait, say what came of it."""
    run = runtime.compact(
        desk.session.pk,
        keep_recent_messages=desk.asked["keep"],
        target_token_count=desk.asked["target"],
        principal=desk.principal,
    )
    if not desk.asked["wait"]:
        desk.say(str(run.pk), run_id=run.pk)
        return
    run = _wait(run.pk, desk.asked["timeout"])
    desk.say(_answer(run), run_id=run.pk, status=run.status, result=run.result)


def status(desk: Desk) -> None:
    """Where the session stands."""
    session: Session = desk.session
    waiting = [e for e in session.executions.open().order_by("id") if e.waits]
    facts: dict[str, Any] = {
        "id": session.pk,
        "title": session.title,
        "agent": session.agent_id,
        "status": session.status,
        "last_seq": session.last_seq,
        "queued": len(list_queue(session)),
        "waits_for": [{"request": e.tool_use_id, "tool": e.name} for e in waiting],
        "active_at": session.active_at.isoformat(),
    }
    lines = [f"{name}: {value}" for name, value in facts.items() if value != []]
    desk.say("\n".join(lines), **facts)


def confirm_tool(desk: Desk) -> None:
    """Let a waiting call run, or refuse it."""
    answer = {
        "tool_use_id": desk.asked["request"],
        "decision": desk.asked["decision"],
        "scope": desk.asked["scope"],
        "note": desk.asked["note"],
    }
    _say_run(desk, _tell(desk, E.USER_TOOL_CONFIRMATION, answer))


def custom_tool_result(desk: Desk) -> None:
    """Give the result of a call that Switchyard does not run itself."""
    answer = {
        "tool_use_id": desk.asked["request"],
        "output": desk.asked["output"],
        "is_error": desk.asked["error"],
    }
    _say_run(desk, _tell(desk, E.USER_CUSTOM_TOOL_RESULT, answer))


def wake(desk: Desk) -> None:
    """Have the session reconsidered now."""
    run_id = runtime.wake(desk.session, principal=desk.principal)
    desk.say(str(run_id or "Nothing is due."), run_id=run_id)


def _tell(desk: Desk, type: str, payload: dict[str, Any]) -> UUID | None:
    return accept_event(desk.principal, desk.session.pk, type=type, payload=payload).run_id


def _say_run(desk: Desk, run_id: UUID | None) -> None:
    desk.say(str(run_id or "Taken. Something else still has to be answered."), run_id=run_id)
