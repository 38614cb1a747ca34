"""Creates rows of sessions and everything that belongs to them."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from core.ids import uuid7
from sessions_app.approvals.approvals import approval_for
from sessions_app.models import (
    Approval,
    ContextSnapshot,
    Draft,
    Feedback,
    Firing,
    MessageVector,
    ResourceAttachment,
    Run,
    SavedView,
    Schedule,
    Session,
    SessionEvent,
    SubagentSpawn,
    ToolExecution,
    ToolOutput,
    ToolUseRollup,
)
from tenants.models import Workspace
from tests.factories.agents import agent
from tests.factories.base import Factory, numbers, user


def session(workspace: Workspace) -> Session:
    known = agent(workspace)
    assert known.current
    return Session.objects.create(
        workspace=workspace, agent=known, agent_version=known.current, created_by=user()
    )


def run(workspace: Workspace) -> Run:
    return Run.objects.create(
        workspace=workspace, session=session(workspace), status=Run.Status.COMPLETED
    )


def event(workspace: Workspace) -> SessionEvent:
    done = run(workspace)
    return SessionEvent.objects.create(
        workspace=workspace,
        session=done.session,
        run=done,
        seq=1,
        type=SessionEvent.Type.AGENT_MESSAGE,
        payload={"text": "hello"},
        created_by=user(),
    )


def execution(workspace: Workspace) -> ToolExecution:
    done = run(workspace)
    return ToolExecution.objects.create(
        workspace=workspace,
        session=done.session,
        run=done,
        tool_use_id=f"call-{next(numbers)}",
        name="read",
        input={"path": "notes.md"},
        state=ToolExecution.State.UNKNOWN,
    )


def approval(workspace: Workspace) -> Approval:
    call = execution(workspace)
    call.state = ToolExecution.State.AWAITING_APPROVAL
    call.save()
    asked = approval_for(call, call.session.agent_id)
    asked.created_by = user()
    asked.save()
    return asked


def schedule(workspace: Workspace) -> Schedule:
    return Schedule.objects.create(
        workspace=workspace,
        name="Look",
        agent=agent(workspace),
        message="Look around.",
        kind="interval",
        interval_seconds=60,
        next_at=timezone.now() + timedelta(hours=1),
        created_by=user(),
    )


FACTORIES: dict[str, Factory] = {
    "sessions_app.Schedule": schedule,
    "sessions_app.Firing": lambda workspace: Firing.objects.create(
        workspace=workspace, schedule=schedule(workspace), due_at=timezone.now(), outcome="sent"
    ),
    "sessions_app.SubagentSpawn": lambda workspace: SubagentSpawn.objects.create(
        workspace=workspace,
        parent_session=session(workspace),
        child_session=session(workspace),
        tool_use_id=f"call-{next(numbers)}",
        task="Count the boats.",
    ),
    "sessions_app.Feedback": lambda workspace: Feedback.objects.create(
        workspace=workspace, session=session(workspace), seq=1, person=user(), rating=-1
    ),
    "sessions_app.SavedView": lambda workspace: SavedView.objects.create(
        workspace=workspace, person=user(), name=f"View {next(numbers)}", query="status=idle"
    ),
    "sessions_app.Session": session,
    "sessions_app.Run": run,
    "sessions_app.SessionEvent": event,
    "sessions_app.ToolExecution": execution,
    "sessions_app.Approval": approval,
    "sessions_app.ContextSnapshot": lambda workspace: ContextSnapshot.objects.create(
        workspace=workspace,
        session=session(workspace),
        trigger="manual",
        first_seq=1,
        last_seq=4,
        first_kept_seq=5,
        summary="Nothing was decided.",
        model="demo",
        tokens_before=900,
        tokens_after=200,
        created_by=user(),
    ),
    "sessions_app.ResourceAttachment": lambda workspace: ResourceAttachment.objects.create(
        workspace=workspace, session=session(workspace), kind="vault", mount_path="/vaults/keys"
    ),
    "sessions_app.MessageVector": lambda workspace: MessageVector.objects.create(
        workspace=workspace,
        session=session(workspace),
        seq=1,
        position=0,
        model="wordllama",
        vector=[0.1] * 256,
    ),
    "sessions_app.ToolOutput": lambda workspace: ToolOutput.objects.create(
        tool_use_id=f"tu_{uuid7().hex}",
        session=session(workspace),
        run_id=uuid7(),
        epoch=1,
        name="exec",
        start=0,
        text="so far",
    ),
    "sessions_app.ToolUseRollup": lambda workspace: ToolUseRollup.objects.create(
        workspace=workspace,
        day=timezone.now().date(),
        name=f"tool-{next(numbers)}",
        state="completed",
        decision="allow",
        bucket=0,
        calls=1,
        ms=1,
    ),
    "sessions_app.Draft": lambda workspace: Draft.objects.create(
        session=session(workspace), event_id=uuid7(), run_id=uuid7(), epoch=1, text="so far"
    ),
}
