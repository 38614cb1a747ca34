"""The tables of tenants, one noun per module."""

from tenants.models.answer import IdempotentAnswer
from tenants.models.attempt import SignInAttempt
from tenants.models.invitation import Invitation
from tenants.models.key import ApiKey
from tenants.models.link import SignInLink
from tenants.models.membership import Membership
from tenants.models.owned import OwnedModel, OwnedQuerySet
from tenants.models.pulse import Pulse
from tenants.models.user import User
from tenants.models.workspace import Workspace

__all__ = [
    "ApiKey",
    "IdempotentAnswer",
    "Invitation",
    "Membership",
    "OwnedModel",
    "OwnedQuerySet",
    "Pulse",
    "SignInAttempt",
    "SignInLink",
    "User",
    "Workspace",
]
