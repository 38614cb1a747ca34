"""One row of any model, for tests that walk over all of them.

A new model needs one line in `FACTORIES`; the tests that walk fail until it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from django.apps import apps
from django.db.models import Model
from django.utils import timezone

from agents.definitions import create_agent
from agents.models import Agent, AgentVersion, Environment, ProviderKey
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
from sessions_app.models import (
    Draft,
    ResourceAttachment,
    Run,
    Session,
    SessionEvent,
    ToolExecution,
)
from tenants.ids import uuid7
from tenants.keys import issue_key
from tenants.models import (
    IdempotentAnswer,
    Invitation,
    Membership,
    Pulse,
    SignInAttempt,
    SignInLink,
    User,
    Workspace,
)
from tenants.tokens import digest
from tools_app.models import CustomTool, PolicyRevision, ToolPolicy

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


def memory(workspace: Workspace) -> MemoryEntry:
    known = agent(workspace)
    return write_entry(
        owner=Owner(workspace_id=workspace.pk, scope=MemoryEntry.Scope.AGENT, owner_id=known.pk),
        path=f"notes/{next(numbers)}.md",
        content=f"Note {next(numbers)}: the office closes at six.",
        author=person(known.created_by_id),
    )


FACTORIES: dict[str, Factory] = {
    "tenants.Workspace": lambda workspace: Workspace.objects.create(
        name="Other", slug=f"other-{next(numbers)}"
    ),
    "tenants.User": lambda workspace: user(),
    "tenants.Membership": lambda workspace: Membership.objects.create(
        workspace=workspace, user=user(), role="viewer"
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
    "tenants.Pulse": lambda workspace: Pulse.objects.create(
        kind="worker", host="here", pid=next(numbers), at=timezone.now()
    ),
    "agents.Agent": agent,
    "agents.AgentVersion": lambda workspace: AgentVersion.objects.get(agent=agent(workspace)),
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
    "sessions_app.Session": session,
    "sessions_app.Run": run,
    "sessions_app.SessionEvent": event,
    "sessions_app.ToolExecution": execution,
    "sessions_app.ResourceAttachment": lambda workspace: ResourceAttachment.objects.create(
        workspace=workspace, session=session(workspace), kind="vault", mount_path="/vault"
    ),
    "sessions_app.Draft": lambda workspace: Draft.objects.create(
        session=session(workspace), event_id=uuid7(), run_id=uuid7(), epoch=1, text="so far"
    ),
}
