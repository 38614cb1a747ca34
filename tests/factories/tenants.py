"""Creates rows of workspaces, members, billing and notifications."""

from __future__ import annotations

from django.utils import timezone

from core.ids import digest, uuid7
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
    SessionUsage,
    SignInAttempt,
    SignInLink,
    StorageGrowth,
    UsageRollup,
    Webhook,
    WebhookDelivery,
    Workspace,
    WorkspaceStorage,
)
from tests.factories.agents import agent
from tests.factories.base import Factory, numbers, user


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


FACTORIES: dict[str, Factory] = {
    "tenants.Workspace": lambda workspace: Workspace.objects.create(
        name="Other", slug=f"other-{next(numbers)}"
    ),
    "tenants.User": lambda workspace: user(),
    "tenants.Membership": lambda workspace: Membership.objects.create(
        workspace=workspace, user=user(), role="viewer"
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
    "tenants.UsageRollup": lambda workspace: UsageRollup.objects.create(
        workspace=workspace,
        dimension="agent",
        day=timezone.now().date(),
        key=str(uuid7()),
        calls=1,
        input_tokens=2,
        output_tokens=3,
        cost=1,
    ),
    "tenants.SessionUsage": lambda workspace: SessionUsage.objects.create(
        workspace=workspace,
        key=str(uuid7()),
        first_day=timezone.now().date(),
        last_day=timezone.now().date(),
        calls=1,
        cost=1,
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
        issue_key(
            workspace_id=workspace.pk,
            name=f"key {next(numbers)}",
            created_by=Membership.objects.create(workspace=workspace, user=user()).user,
        ).key
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
    "tenants.StorageGrowth": lambda workspace: StorageGrowth.objects.create(
        workspace=workspace, bytes=100
    ),
    "tenants.WorkspaceStorage": lambda workspace: WorkspaceStorage.objects.create(
        workspace=Workspace.objects.create(name="Big", slug=f"big-{next(numbers)}"), bytes=100
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
}
