"""Turns vendors' errors into faults that tell the caller what to do: retry, fix the key, compact.

Messages never contain the key, although vendors quote it in theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

from agents.exceptions import (
    ContextOverflow,
    ProviderFault,
    ProviderRejected,
    ProviderUnauthorized,
    ProviderUnavailable,
)

MESSAGE_LENGTH = 500
#: The beginning of a vendor's message that is searched: for keys, and for what it complains about.
SEARCHED_LENGTH = 20_000
#: Shorter secrets are placeholders (`none`, `ollama`), and removing them would garble the text.
SECRET_LENGTH = 8
OVERLOADED = frozenset({408, 429})

#: What adapters and SDKs raise at an answer that is not in the vendor's format.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

_KEY_SHAPES = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai)[-_][-_A-Za-z0-9*.…]{6,}|\bAIza[-_A-Za-z0-9*.…]{6,}"
    r"|(?i:bearer)\s+(?=\S*\d)\S{8,}|(?<=[?&]key=)[^&\s\"']+"
)
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context[ _-]?(?:length|window|size|limit)"
    r"|input token count|input tokens exceed|maximum number of (?:input )?tokens"
    r"|(?:prompt|input) is too long|too many (?:input )?tokens|reduce the length of the messages"
    r"|maximum (?:prompt|model) length|model token limit|exceeds max length|range of input length"
    r"|tokens in request more than|tokens \+ .max_new_tokens",
    re.IGNORECASE,
)
#: One request is larger than the limit per minute: waiting does not help.
_LARGER_THAN_A_MINUTE = re.compile(r"request too large for", re.IGNORECASE)
#: Some servers answer 500 instead of refusing.
_MAY_MEAN_OVERFLOW = frozenset({400, 422, 500})


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error response of a vendor."""

    vendor: str
    status: int
    message: str
    #: The vendor's own code: `context_length_exceeded`, `API_KEY_INVALID`.
    reason: str = ""
    retry_after: float | None = None
    secret: str = ""


def scrub(text: str, secret: str = "") -> str:
    """Remove the key, whole or half masked, and return one line short enough to show."""
    if len(secret) >= SECRET_LENGTH:
        text = text.replace(secret, "[key]")
    text = " ".join(_KEY_SHAPES.sub("[key]", text[:SEARCHED_LENGTH]).split())
    return text if len(text) <= MESSAGE_LENGTH else f"{text[: MESSAGE_LENGTH - 1]}…"


def fault_of(refusal: Refusal) -> ProviderFault:
    """Return the fault for an error response. Only `ProviderUnavailable` is worth a retry."""
    message = scrub(refusal.message, refusal.secret) or "no reason given"
    detail = f"{refusal.vendor} answered {refusal.status}: {message}"
    if refusal.reason == "insufficient_quota":
        return ProviderRejected(detail)
    if refusal.status == 413 or _is_overflow(refusal):
        return ContextOverflow(detail)
    if refusal.status in OVERLOADED or refusal.status >= 500:
        return ProviderUnavailable(detail, retry_after=_seconds(refusal.retry_after))
    if refusal.status in {401, 403} or refusal.reason == "API_KEY_INVALID":
        return ProviderUnauthorized(f"{detail} Check the key in the settings.")
    return ProviderRejected(detail)


def _seconds(wait: float | None) -> float | None:
    """Return how long to wait, if a server named a time that can be waited for."""
    return wait if wait is not None and isfinite(wait) and wait >= 0 else None


def unreachable(vendor: str, error: Exception, secret: str = "") -> ProviderUnavailable:
    """Return the fault for a connection that failed, broke or timed out."""
    reason = scrub(str(error), secret) or type(error).__name__
    return ProviderUnavailable(f"{vendor} could not be reached or the answer was cut off: {reason}")


def cut_short(vendor: str) -> ProviderUnavailable:
    """Return the fault for a stream that ended before the vendor marked it as finished."""
    return ProviderUnavailable(f"{vendor} ended the answer before it was finished.")


def malformed(vendor: str) -> ProviderUnavailable:
    """Return the fault for an answer that is not in the vendor's format."""
    return ProviderUnavailable(f"{vendor} sent an answer that cannot be read.")


def empty_answer(vendor: str) -> ProviderRejected:
    """Return the fault for an answer whose token limit was used up before its first word."""
    return ProviderRejected(
        f"{vendor} returned an empty answer: it reached its token limit before the first word. "
        "Allow longer answers."
    )


def _is_overflow(refusal: Refusal) -> bool:
    text = f"{refusal.reason[:200]} {refusal.message[:SEARCHED_LENGTH]}"
    if refusal.status == 429:
        return bool(_LARGER_THAN_A_MINUTE.search(text))
    return refusal.status in _MAY_MEAN_OVERFLOW and bool(_OVERFLOW.search(text))
