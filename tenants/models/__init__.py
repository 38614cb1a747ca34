"""The models of tenants."""

from tenants.models.accounts import (
    ApiKey,
    Invitation,
    Membership,
    OwnedModel,
    OwnedQuerySet,
    Secret,
    SignInAttempt,
    SignInLink,
    User,
    Workspace,
)
from tenants.models.billing import (
    CreditEntry,
    ModelCall,
    Price,
    Purse,
    SandboxMinute,
    SessionUsage,
    UsageRollup,
)
from tenants.models.notifications import InboxItem, InboxRead, SentMail, Webhook, WebhookDelivery
from tenants.models.operations import IdempotentAnswer, Pulse, StorageGrowth, WorkspaceStorage

__all__ = [
    "ApiKey",
    "CreditEntry",
    "IdempotentAnswer",
    "InboxItem",
    "InboxRead",
    "Invitation",
    "Membership",
    "ModelCall",
    "OwnedModel",
    "OwnedQuerySet",
    "Price",
    "Pulse",
    "Purse",
    "SandboxMinute",
    "Secret",
    "SentMail",
    "SessionUsage",
    "SignInAttempt",
    "SignInLink",
    "StorageGrowth",
    "UsageRollup",
    "User",
    "Webhook",
    "WebhookDelivery",
    "Workspace",
    "WorkspaceStorage",
]
