"""The tables of tenants, one noun per module."""

from tenants.models.answer import IdempotentAnswer
from tenants.models.attempt import SignInAttempt
from tenants.models.call import ModelCall
from tenants.models.credit import CreditEntry
from tenants.models.inbox import InboxItem, InboxRead
from tenants.models.invitation import Invitation
from tenants.models.key import ApiKey
from tenants.models.link import SignInLink
from tenants.models.mail import SentMail
from tenants.models.membership import Membership
from tenants.models.minute import SandboxMinute
from tenants.models.owned import OwnedModel, OwnedQuerySet
from tenants.models.price import Price
from tenants.models.pulse import Pulse
from tenants.models.purse import Purse
from tenants.models.secret import Secret
from tenants.models.user import User
from tenants.models.webhook import Webhook, WebhookDelivery
from tenants.models.workspace import Workspace

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
    "SignInAttempt",
    "SignInLink",
    "User",
    "Webhook",
    "WebhookDelivery",
    "Workspace",
]
