"""What goes wrong between an agent and its model."""

from __future__ import annotations

from config.faults.base import Fault
from config.faults.requests import InvalidFields, StaleWrite


class ProviderFault(Fault):
    """The model provider failed."""

    code = "provider_failed"
    status = 502
    #: Whether people have seen a part of the answer already.
    emitted = False


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


class CanvasConflict(StaleWrite):
    """Someone saved this canvas first. Look at the newer one, then save again."""

    code = "canvas_conflict"


class CanvasInvalid(InvalidFields):
    """This canvas cannot run as it is."""

    code = "canvas_invalid"
    status = 422


class DraftConflict(StaleWrite):
    """Someone changed this draft first. Look at the newer one, then change it again."""

    code = "draft_conflict"
