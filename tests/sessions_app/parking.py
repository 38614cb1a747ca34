"""A helper that parks a session without a model."""

from __future__ import annotations

from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent, ToolExecution
from tests.sessions_app.conftest import OWNER

E = SessionEvent.Type


def park(session: Session, *tool_use_ids: str, custom: bool = False) -> None:
    """Let a run request these calls and end, as the harness does."""
    message = NewEvent(type=E.USER_MESSAGE, payload={"text": "Clean up"})
    run_queue.accept(session.pk, message)
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    for tool_use_id in tool_use_ids:
        ToolExecution.objects.create(
            workspace_id=session.workspace_id,
            session=session,
            run_id=claim.run_id,
            tool_use_id=tool_use_id,
            name="clean",
            input={"place": "yard"},
            ownership="custom" if custom else "managed",
            state="running" if custom else "awaiting_approval",
        )
    uses = [
        NewEvent(
            type=E.AGENT_CUSTOM_TOOL_USE if custom else E.AGENT_TOOL_USE,
            payload={"tool_use_id": one, "name": "clean", "input": {"place": "yard"}},
        )
        for one in tool_use_ids
    ]
    append_events(session.pk, uses, epoch=claim.epoch, run_id=claim.run_id)
    run_queue.finish(claim, None, stop_reason="requires_action")
