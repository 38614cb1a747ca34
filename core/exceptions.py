"""The base class of errors that clients see, and the errors that any app may raise.

The docstring of a fault is its default message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

#: The WWW-Authenticate header of every 401.
CHALLENGE = 'Bearer realm="switchyard"'


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


class PluginInvalid(Fault, ValueError):
    """A plugin registers something that cannot be used."""

    code = "plugin_invalid"


class Unauthenticated(Fault):
    """Sign in, or send a valid API key."""

    code = "unauthenticated"
    status = 401


class Forbidden(Fault):
    """You are not allowed to do this."""

    code = "forbidden"
    status = 403


class NotFound(Fault):
    """This does not exist, or you cannot see it."""

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
        #: One entry for each wrong field, as in problem+json.
        self.errors = list(errors)


class Conflict(Fault):
    """Someone else changed this first."""

    code = "conflict"
    status = 409


class StaleWrite(Conflict):
    """Someone changed this first. Read the newer version, then write again."""

    def __init__(self, detail: str = "", *, newer: Mapping[str, object] | None = None) -> None:
        super().__init__(detail)
        #: The newer version, which the problem includes.
        self.extra = {"current": dict(newer)} if newer else {}


class CsrfFailed(Forbidden):
    """This form has expired or came from another site. Reload the page and try again."""

    code = "csrf_failed"


class TooManyRequests(Fault):
    """Too many requests. Wait a moment."""

    code = "throttled"
    status = 429

    def __init__(self, detail: str = "", *, retry_after: float = 1) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class WorkspaceBusy(TooManyRequests):
    """This workspace has too many requests under way. Wait for some of them to end."""

    code = "workspace_busy"


class RequestTooLarge(Fault):
    """The request is larger than this server accepts."""

    code = "too_large"
    status = 413


class RequestTooSlow(Fault):
    """The request did not arrive in time."""

    code = "too_slow"
    status = 408


class EgressRefused(Fault):
    """This address is not on the public internet and was not contacted."""

    code = "egress_refused"
    status = 422


class StaleEpoch(Fault):
    """Another worker holds this session's lane now. Nothing was written."""

    code = "stale_epoch"
    status = 409


class MessageTooLong(Fault):
    """A live message is too long for the stream."""

    code = "message_too_long"
    status = 413


class SlowViewer(Fault):
    """This viewer is too slow. Connect again after the last event it received."""

    code = "slow_viewer"
    status = 408
