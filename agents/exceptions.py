"""Errors that the agents app raises."""

from __future__ import annotations

from core.exceptions import Fault, InvalidFields, StaleWrite


class ProviderFault(Fault):
    """The model provider failed."""

    code = "provider_failed"
    status = 502
    #: Whether a part of the answer was already shown to people.
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


class AnswerTooLarge(ProviderRejected):
    """The model's answer is too large and was stopped."""

    code = "answer_too_large"


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
    """Someone else saved this canvas first. Review the newer version, then save again."""

    code = "canvas_conflict"


class CanvasInvalid(InvalidFields):
    """This canvas has errors and cannot run."""

    code = "canvas_invalid"
    status = 422


class DraftConflict(StaleWrite):
    """Someone else changed this draft first. Review the newer version, then change it again."""

    code = "draft_conflict"
