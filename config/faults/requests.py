"""What a request is refused for, whoever asks for whatever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from config.faults.base import Fault


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


class InvalidFields(Invalid):
    """The input is not valid."""

    def __init__(self, detail: str = "", *, errors: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(detail)
        #: One entry per wrong field, as problem+json lists them.
        self.errors = list(errors)


class Conflict(Fault):
    """Someone else changed this first."""

    code = "conflict"
    status = 409


class StaleWrite(Conflict):
    """Someone wrote this first. Read the newer version, then write again."""

    def __init__(self, detail: str = "", *, newer: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        #: The version to build on, which the problem carries.
        self.extra = {"current": dict(newer)} if newer else {}


class LastOwner(Conflict):
    """A workspace needs at least one owner."""

    code = "last_owner"


class IdempotencyMismatch(Fault):
    """This Idempotency-Key was used before for another path or body. Send a new key with a new request."""

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


class SecretMissing(Conflict):
    """The vault of this workspace holds no secret of that name."""

    code = "secret_missing"


class SecretRefused(Forbidden):
    """This secret may not be used there."""

    code = "secret_refused"


class EgressRefused(Fault):
    """This address is not on the public internet, so it is not contacted."""

    code = "egress_refused"
    status = 422


class OutOfCredits(Fault):
    """The workspace has no credits left. An owner can add some."""

    code = "out_of_credits"
    status = 402
