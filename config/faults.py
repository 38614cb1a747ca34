"""Every error the product raises on purpose.

The docstring is the default message, `code` is what programs read, `status` is the HTTP answer.
"""

from __future__ import annotations

from typing import ClassVar


class Fault(Exception):
    """Something went wrong inside Switchyard."""

    code: ClassVar[str] = "fault"
    status: ClassVar[int] = 500

    def __init__(self, detail: str = "") -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        super().__init__(self.detail)


class CannotStart(Fault):
    """Switchyard cannot start."""

    code = "cannot_start"


class Unauthenticated(Fault):
    """Sign in, or send a valid API key."""

    code = "unauthenticated"
    status = 401


class Forbidden(Fault):
    """This identity may not do that here."""

    code = "forbidden"
    status = 403


class NotFound(Fault):
    """There is no such thing, or it is not yours to see."""

    code = "not_found"
    status = 404


class Invalid(Fault):
    """The request is not valid."""

    code = "invalid"
    status = 400


class Conflict(Fault):
    """Someone else changed this first."""

    code = "conflict"
    status = 409


class LastOwner(Conflict):
    """A workspace needs at least one owner."""

    code = "last_owner"


class IdempotencyMismatch(Fault):
    """This Idempotency-Key was used before with another body."""

    code = "idempotency_mismatch"
    status = 422


class IdempotencyInFlight(Conflict):
    """The first request with this Idempotency-Key is still being answered. Try again in a moment."""

    code = "idempotency_in_flight"


class LinkExpired(Fault):
    """This link was used already or is too old. Ask for a new one."""

    code = "link_expired"
    status = 410


class ProviderFault(Fault):
    """The model provider failed."""

    code = "provider_failed"
    status = 502


class ProviderUnavailable(ProviderFault):
    """The model provider is overloaded or out of reach. The call may be tried again."""

    code = "provider_unavailable"

    def __init__(self, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class ProviderRejected(ProviderFault):
    """The model provider refused the request. Trying again with this model will not help."""

    code = "provider_rejected"


class ProviderUnauthorized(ProviderRejected):
    """The model provider refused the key. Check it in the settings."""

    code = "provider_unauthorized"


class ContextOverflow(ProviderRejected):
    """The request is larger than the model's window."""

    code = "context_overflow"


class ProviderNotConfigured(ProviderFault):
    """No key is set for this model provider. Add one in the settings, or choose the demo provider."""

    code = "provider_not_configured"
    status = 409


class SessionEnded(Fault):
    """The session has ended and accepts no more events."""

    code = "session_ended"
    status = 409


class SessionBusy(Fault):
    """The session is busy, and the message asked to be rejected then."""

    code = "session_busy"
    status = 409


class StaleEpoch(Fault):
    """Another worker holds this session's lane now. Nothing was written."""

    code = "stale_epoch"
    status = 409


class NothingToAnswer(Fault):
    """No call with this id waits for an answer. It may have been answered, stopped or timed out."""

    code = "nothing_to_answer"
    status = 409
