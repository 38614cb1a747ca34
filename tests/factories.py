"""One row of any model, for tests that walk over all of them.

A new model needs one line in `FACTORIES`; the tests that walk fail until it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

from django.apps import apps
from django.db.models import Model
from django.utils import timezone

from agents.definitions import create_agent
from agents.models import (
    Agent,
    AgentDraft,
    AgentVersion,
    Canvas,
    CanvasRevision,
    DraftChange,
    Environment,
    ProviderKey,
)
from config.sockets import APPS
from memory.models import (
    EmbeddingChoice,
    MemoryChunk,
    MemoryEntry,
    MemoryVector,
    MemoryVersion,
)
from memory.owner import Owner, person
from memory.writing import write_entry
from orchestrator.models import (
    Step,
    StepAttempt,
    Terminal,
    TriggerFiring,
    Workflow,
    WorkflowEvent,
    WorkflowSignal,
    WorkflowTrigger,
)
from sessions_app.asking import question
from sessions_app.models import (
    Approval,
    ContextSnapshot,
    Draft,
    Firing,
    ResourceAttachment,
    Run,
    SavedView,
    Schedule,
    Session,
    SessionEvent,
    SubagentSpawn,
    ToolExecution,
    ToolOutput,
)
from tenants.ids import uuid7
from tenants.keys import issue_key
from tenants.models import (
    CreditEntry,
    IdempotentAnswer,
    InboxItem,
    InboxRead,
    Invitation,
    Membership,
    ModelCall,
    Price,
    Pulse,
    Purse,
    SandboxMinute,
    Secret,
    SentMail,
    SignInAttempt,
    SignInLink,
    User,
    Webhook,
    WebhookDelivery,
    Workspace,
)
from tenants.tokens import digest
from tools_app.models import CustomTool, McpServer, PolicyRevision, Skill, ToolPolicy

Factory = Callable[[Workspace], Model]

numbers = count(1)


def our_models() -> list[type[Model]]:
    """Every model of our apps; histories belong to the model whose past they are."""
    return [
        model
        for app in APPS
        for model in apps.get_app_config(app).get_models()
        if not hasattr(model, "instance_type")
    ]


def make(model: type[Model], workspace: Workspace) -> Model:
    """A new row that belongs to this workspace, if such rows belong to one."""
    label = model._meta.label
    if label not in FACTORIES:
        raise AssertionError(f"{label} has no factory: add one line to FACTORIES in {__name__}.")
    return FACTORIES[label](workspace)


def user() -> User:
    return User.objects.create_user(f"person{next(numbers)}@example.com", "correct horse 9")


def agent(workspace: Workspace) -> Agent:
    fields = {"name": f"Agent {next(numbers)}", "provider": "demo", "model": "demo"}
    return create_agent(workspace_id=workspace.pk, fields=fields, created_by=user())


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
    asked = question(call, call.session.agent_id)
    asked.created_by = user()
    asked.save()
    return asked


def memory(workspace: Workspace) -> MemoryEntry:
    known = agent(workspace)
    return write_entry(
        owner=Owner(workspace_id=workspace.pk, scope=MemoryEntry.Scope.AGENT, owner_id=known.pk),
        path=f"notes/{next(numbers)}.md",
        content=f"Note {next(numbers)}: the office closes at six.",
        author=person(known.created_by_id),
    )


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


def workflow(workspace: Workspace) -> Workflow:
    """One that is over, so that nothing runs it."""
    return Workflow.objects.create(
        workspace=workspace,
        key=f"key-{next(numbers)}",
        name="digest",
        status=Workflow.Status.COMPLETE,
        finished_at=timezone.now(),
        created_by=user(),
    )


def webhook(workspace: Workspace) -> Webhook:
    return Webhook.objects.create(
        workspace=workspace,
        url=f"https://example.com/hooks/{next(numbers)}",
        events=["run.*"],
        secret="whsec_bmV2ZXItc2hvd24tdG8tYW55b25l",
        created_by=user(),
    )


def delivery(workspace: Workspace) -> WebhookDelivery:
    return WebhookDelivery.objects.create(
        workspace=workspace,
        webhook=webhook(workspace),
        type="run.completed",
        body={"type": "run.completed", "data": {"n": next(numbers)}},
        next_attempt_at=timezone.now(),
    )


def inbox_item(workspace: Workspace) -> InboxItem:
    return InboxItem.objects.create(
        workspace=workspace, title=f"Note {next(numbers)}", body="Only for members to read."
    )


def step(workspace: Workspace) -> Step:
    return Step.objects.create(workflow=workflow(workspace), position=0, name="draft")


def trigger(workspace: Workspace) -> WorkflowTrigger:
    return WorkflowTrigger.objects.create(
        workspace=workspace,
        name=f"Hook {next(numbers)}",
        kind="webhook",
        workflow="digest",
        token=f"token-{next(numbers)}",
        secret="whsec_bmV2ZXItc2hvd24tdG8tYW55b25l",
        created_by=user(),
    )


FACTORIES: dict[str, Factory] = {
    "orchestrator.WorkflowTrigger": trigger,
    "orchestrator.TriggerFiring": lambda workspace: TriggerFiring.objects.create(
        workspace=workspace, trigger=trigger(workspace), outcome="started", workflow_id=uuid7()
    ),
    "sessions_app.Schedule": schedule,
    "sessions_app.Firing": lambda workspace: Firing.objects.create(
        workspace=workspace, schedule=schedule(workspace), due_at=timezone.now(), outcome="sent"
    ),
    "tenants.Workspace": lambda workspace: Workspace.objects.create(
        name="Other", slug=f"other-{next(numbers)}"
    ),
    "tenants.User": lambda workspace: user(),
    "tenants.Membership": lambda workspace: Membership.objects.create(
        workspace=workspace, user=user(), role="viewer"
    ),
    "sessions_app.SubagentSpawn": lambda workspace: SubagentSpawn.objects.create(
        workspace=workspace,
        parent_session=session(workspace),
        child_session=session(workspace),
        tool_use_id=f"call-{next(numbers)}",
        task="Count the boats.",
    ),
    "tenants.Purse": lambda workspace: Purse.objects.create(
        workspace=workspace, kind="agent", owner_id=agent(workspace).pk, ceiling=5
    ),
    "tenants.CreditEntry": lambda workspace: CreditEntry.objects.create(
        workspace=workspace, kind="grant", amount=1, note="a gift", created_by=user()
    ),
    "tenants.SandboxMinute": lambda workspace: SandboxMinute.objects.create(
        workspace=workspace, sandbox=f"call:{next(numbers)}", minute=timezone.now()
    ),
    "tenants.ModelCall": lambda workspace: ModelCall.objects.create(
        workspace=workspace, provider="demo", model="demo", reserved=0, created_by=user()
    ),
    "tenants.Price": lambda workspace: Price.objects.create(
        workspace=workspace,
        provider="demo",
        model=f"m{next(numbers)}",
        input_price=1,
        output_price=2,
        created_by=user(),
    ),
    "tenants.ApiKey": lambda workspace: (
        issue_key(workspace_id=workspace.pk, name=f"key {next(numbers)}", created_by=user()).key
    ),
    "tenants.Invitation": lambda workspace: Invitation.objects.create(
        workspace=workspace,
        email=f"guest{next(numbers)}@example.com",
        digest=digest(str(uuid7())),
        expires_at=timezone.now(),
        created_by=user(),
    ),
    "tenants.SignInLink": lambda workspace: SignInLink.objects.create(
        user=user(), digest=digest(str(uuid7())), expires_at=timezone.now()
    ),
    "tenants.SignInAttempt": lambda workspace: SignInAttempt.objects.create(
        email_digest=digest(str(next(numbers))), client="x"
    ),
    "tenants.IdempotentAnswer": lambda workspace: IdempotentAnswer.objects.create(
        workspace=workspace, key_digest=digest(str(next(numbers))), body_digest="x", status=200
    ),
    "tenants.Secret": lambda workspace: Secret.objects.create(
        workspace=workspace,
        name=f"TOKEN_{next(numbers)}",
        value="never-shown-to-anyone",
        created_by=user(),
    ),
    "tenants.Pulse": lambda workspace: Pulse.objects.create(
        kind="worker", host="here", pid=next(numbers), at=timezone.now()
    ),
    "tenants.Webhook": webhook,
    "tenants.WebhookDelivery": delivery,
    "tenants.InboxItem": inbox_item,
    "tenants.InboxRead": lambda workspace: InboxRead.objects.create(
        item=inbox_item(workspace), user=user()
    ),
    "tenants.SentMail": lambda workspace: SentMail.objects.create(
        workspace=workspace, recipient="ann@example.com", subject="Lunch"
    ),
    "agents.Agent": agent,
    "agents.AgentVersion": lambda workspace: AgentVersion.objects.get(agent=agent(workspace)),
    "agents.Canvas": lambda workspace: Canvas.objects.create(
        workspace=workspace, agent=agent(workspace), created_by=user()
    ),
    "agents.CanvasRevision": lambda workspace: CanvasRevision.objects.create(
        workspace=workspace, agent=agent(workspace), number=1, created_by=user()
    ),
    "agents.AgentDraft": lambda workspace: AgentDraft.objects.create(
        workspace=workspace, agent=agent(workspace), revision=1, fields={"name": "Other"}
    ),
    "agents.DraftChange": lambda workspace: DraftChange.objects.create(
        workspace=workspace, agent=agent(workspace), revision=1, part="name", after="Other"
    ),
    "agents.Environment": lambda workspace: Environment.objects.create(
        workspace=workspace, name=f"Place {next(numbers)}", created_by=user()
    ),
    "agents.ProviderKey": lambda workspace: ProviderKey.objects.create(
        workspace=workspace,
        provider=f"p{next(numbers)}",
        secret="never-shown-to-anyone",
        created_by=user(),
    ),
    "tools_app.ToolPolicy": lambda workspace: ToolPolicy.objects.create(
        workspace=workspace, layer="agent", subject_id=agent(workspace).pk, created_by=user()
    ),
    "tools_app.PolicyRevision": lambda workspace: PolicyRevision.objects.create(
        workspace=workspace,
        policy=ToolPolicy.objects.create(workspace=workspace, layer="agent", subject_id=uuid7()),
        revision=1,
        created_by=user(),
    ),
    "tools_app.CustomTool": lambda workspace: CustomTool.objects.create(
        workspace=workspace, name=f"own_{next(numbers)}", description="x", created_by=user()
    ),
    "tools_app.McpServer": lambda workspace: McpServer.objects.create(
        workspace=workspace,
        name=f"server-{next(numbers)}",
        url="https://mcp.example/",
        created_by=user(),
    ),
    "tools_app.Skill": lambda workspace: Skill.objects.create(
        workspace=workspace,
        name=f"skill-{next(numbers)}",
        description="How it is done.",
        body="Never shown to staff.",
        created_by=user(),
    ),
    "memory.MemoryEntry": memory,
    "memory.MemoryVersion": lambda workspace: MemoryVersion.objects.get(entry=memory(workspace)),
    "memory.MemoryChunk": lambda workspace: MemoryChunk.objects.get(entry=memory(workspace)),
    "memory.MemoryVector": lambda workspace: MemoryVector.objects.get(
        chunk__entry=memory(workspace)
    ),
    "memory.EmbeddingChoice": lambda workspace: EmbeddingChoice.objects.create(
        workspace=Workspace.objects.create(name="Other", slug=f"other-{next(numbers)}"),
        model="wordllama",
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
    "sessions_app.ToolOutput": lambda workspace: ToolOutput.objects.create(
        tool_use_id=f"tu_{uuid7().hex}",
        session=session(workspace),
        run_id=uuid7(),
        epoch=1,
        name="exec",
        start=0,
        text="so far",
    ),
    "sessions_app.Draft": lambda workspace: Draft.objects.create(
        session=session(workspace), event_id=uuid7(), run_id=uuid7(), epoch=1, text="so far"
    ),
    "orchestrator.Workflow": workflow,
    "orchestrator.Step": step,
    "orchestrator.StepAttempt": lambda workspace: StepAttempt.objects.create(
        step=step(workspace), number=1, status="errored", started_at=timezone.now()
    ),
    "orchestrator.WorkflowSignal": lambda workspace: WorkflowSignal.objects.create(
        workflow=workflow(workspace), seq=next(numbers), type="paid", payload="{}"
    ),
    "orchestrator.Terminal": lambda workspace: Terminal.objects.create(
        workspace=workspace,
        session=session(workspace),
        status=Terminal.Status.CLOSED,
        closed_at=timezone.now(),
        created_by=user(),
    ),
    "orchestrator.WorkflowEvent": lambda workspace: WorkflowEvent.objects.create(
        workflow=workflow(workspace), seq=1, type="log", payload={"message": "hello"}
    ),
}
