"""Every error the product raises on purpose.

The docstring is the default message, `code` is what programs read, `status` is the HTTP answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    retry_after: ClassVar[float] = 1


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


class CsrfFailed(Forbidden):
    """This form is too old or came from another site. Go back, reload the page and try again."""

    code = "csrf_failed"


class TooManyRequests(Fault):
    """Too many requests. Wait a moment."""

    code = "throttled"
    status = 429

    def __init__(self, detail: str = "", *, retry_after: float = 1) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class TooManyAttempts(TooManyRequests):
    """Too many failed attempts to sign in. Wait a quarter of an hour, or ask for a sign-in link."""

    code = "too_many_attempts"


class MessageTooLong(Fault):
    """A live message is longer than the stream can carry."""

    code = "message_too_long"
    status = 413


class RunStopped(Fault):
    """The run was told to stop."""

    code = "run_stopped"


class LimitReached(Fault):
    """The run reached one of its limits."""

    code = "limit_reached"


class InvalidFields(Invalid):
    """The input is not valid."""

    def __init__(self, detail: str = "", *, errors: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(detail)
        #: One entry per wrong field, as problem+json lists them.
        self.errors = list(errors)


class SlowViewer(Fault):
    """This viewer could not keep up. Connect again after the last event it saw."""

    code = "slow_viewer"
    status = 408


class StreamUnavailable(Fault):
    """The stream cannot be read at the moment. Connect again after the last event you saw."""

    code = "stream_unavailable"
    status = 503


class ToolFailed(Fault):
    """The tool could not do what was asked."""

    code = "tool_failed"
    status = 422


class ToolStopped(Fault):
    """The tool was stopped before it was done."""

    code = "tool_stopped"
    status = 409


class SandboxUnavailable(ToolFailed):
    """Commands cannot run here: this machine cannot enforce what the sandbox promises."""

    code = "sandbox_unavailable"
    status = 503


class EgressRefused(Fault):
    """This address is not on the public internet, so it is not contacted."""

    code = "egress_refused"
    status = 422


class MemoryConflict(Conflict):
    """Someone wrote this document first. Read the newer version, then write again."""

    code = "memory_conflict"

    def __init__(self, detail: str = "", *, newer: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        #: The version to build on, which the problem carries.
        self.extra = {"current": dict(newer)} if newer else {}


class MemoryTooLarge(Fault):
    """A document of memory holds at most 100,000 bytes. Split it into several."""

    code = "memory_too_large"
    status = 413
