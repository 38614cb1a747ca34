"""What people are asked about a call: made with the call, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from sessions_app.models import Approval, ToolExecution
from sessions_app.tool_words import subject_of, words_of

TITLE_LENGTH = 300


def questions(calls: Sequence[ToolExecution], agent_id: UUID) -> list[Approval]:
    """An approval for each call that waits for one; they are written together with the calls."""
    waiting = ToolExecution.State.AWAITING_APPROVAL
    return [question(call, agent_id) for call in calls if call.state == waiting]


def question(call: ToolExecution, agent_id: UUID) -> Approval:
    return Approval(
        workspace_id=call.workspace_id,
        subject=Approval.Subject.TOOL,
        subject_id=call.pk,
        session_id=call.session_id,
        execution=call,
        agent_id=agent_id,
        title=title_of(call),
        input=call.input,
        reason=call.decided_by,
        expires_at=timezone.now() + timedelta(seconds=settings.APPROVAL_SECONDS),
        created_by_id=call.created_by_id,
    )


def title_of(call: ToolExecution) -> str:
    """What will happen, on one line."""
    said = words_of(call.name).title
    subject = subject_of(call.name, call.input)
    return (f"{said}: {subject}" if subject else said)[:TITLE_LENGTH]
