"""Errors raised by accounts, billing, the vault and idempotent requests."""

from __future__ import annotations

from typing import ClassVar

from core.exceptions import Conflict, Fault, Forbidden, TooManyRequests


class LastOwner(Conflict):
    """A workspace needs at least one owner."""

    code = "last_owner"


class IdempotencyMismatch(Fault):
    """This Idempotency-Key was used for another path or body. Send a new key with a new request."""

    code = "idempotency_mismatch"
    status = 422


class IdempotencyInFlight(Conflict):
    """The first request with this Idempotency-Key is still running. Try again in a moment."""

    code = "idempotency_in_flight"
    retry_after: ClassVar[float] = 1


class LinkExpired(Fault):
    """This link has been used or has expired. Ask for a new one."""

    code = "link_expired"
    status = 410


class TooManyAttempts(TooManyRequests):
    """Too many failed sign-ins. Wait 15 minutes, or reset your password to sign in now."""

    code = "too_many_attempts"


class SignUpClosed(Forbidden):
    """This installation does not accept new accounts. Ask its operator."""

    code = "sign_up_closed"


class StaffOnly(Forbidden):
    """Only the operator of this installation may do this."""

    code = "staff_only"


class QuotaReached(Conflict):
    """This workspace has as many of these as it may have."""

    code = "quota_reached"


class TooManyInvitations(TooManyRequests):
    """Too many invitations were mailed in the last hour. Try again later."""

    code = "too_many_invitations"


class TooManySockets(TooManyRequests):
    """Too many live connections are open. Close some of them first."""

    code = "too_many_sockets"


class SecretMissing(Conflict):
    """The vault of this workspace has no secret with this name."""

    code = "secret_missing"


class SecretRefused(Forbidden):
    """This secret may not be used there."""

    code = "secret_refused"


class OutOfCredits(Fault):
    """The workspace has no credits left. The operator of this installation can add some."""

    code = "out_of_credits"
    status = 402


class BudgetReached(Fault):
    """A budget is used up. An admin can raise it, and the session continues."""

    code = "budget_reached"
    status = 402


class DatabaseQuotaReached(BudgetReached):
    """This workspace stores as much text in the database as it may, so nothing new is accepted. Nothing was lost. Ask the operator of this installation for more room."""

    code = "database_quota"
    status = 507
