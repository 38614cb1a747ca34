"""Turns what a vendor answered into the fault that says who can act: retry, fix the key, compact.

Nothing here ever repeats a key: vendors quote it in their own messages.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from config.faults import (
    ContextOverflow,
    ProviderFault,
    ProviderRejected,
    ProviderUnauthorized,
    ProviderUnavailable,
)

MESSAGE_LENGTH = 500
#: Shorter secrets are placeholders (`none`, `ollama`): cutting them out would only garble the text.
SECRET_LENGTH = 8
OVERLOADED = frozenset({408, 429})

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
#: One request that is larger than all that may be asked in a minute: waiting does not help.
_LARGER_THAN_A_MINUTE = re.compile(r"request too large for", re.IGNORECASE)
#: Some servers break down instead of refusing.
_MAY_MEAN_OVERFLOW = frozenset({400, 422, 500})


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A vendor's answer that is not an answer."""

    vendor: str
    status: int
    message: str
    #: The vendor's own word for it: `context_length_exceeded`, `API_KEY_INVALID`.
    reason: str = ""
    retry_after: float | None = None
    secret: str = ""


def scrub(text: str, secret: str = "") -> str:
    """The text without the key, whole or half masked, on one line and short enough to show."""
    if len(secret) >= SECRET_LENGTH:
        text = text.replace(secret, "[key]")
    text = " ".join(_KEY_SHAPES.sub("[key]", text).split())
    return text if len(text) <= MESSAGE_LENGTH else f"{text[: MESSAGE_LENGTH - 1]}…"


def fault_of(refusal: Refusal) -> ProviderFault:
    """The fault for a refusal. Asking again helps only with `ProviderUnavailable`."""
    message = scrub(refusal.message, refusal.secret) or "no reason given"
    told = f"{refusal.vendor} answered {refusal.status}: {message}"
    if refusal.reason == "insufficient_quota":
        return ProviderRejected(told)
    if refusal.status == 413 or _speaks_of_overflow(refusal):
        return ContextOverflow(told)
    if refusal.status in OVERLOADED or refusal.status >= 500:
        return ProviderUnavailable(told, retry_after=refusal.retry_after)
    if refusal.status in {401, 403} or refusal.reason == "API_KEY_INVALID":
        return ProviderUnauthorized(f"{told} Check the key in the settings.")
    return ProviderRejected(told)


def unreachable(vendor: str, error: Exception, secret: str = "") -> ProviderUnavailable:
    """The fault for a connection that failed, broke or fell silent."""
    reason = scrub(str(error), secret) or type(error).__name__
    return ProviderUnavailable(f"{vendor} could not be reached or the answer broke off: {reason}")


def cut_short(vendor: str) -> ProviderUnavailable:
    """The fault for a stream that ended before the vendor said that it was finished."""
    return ProviderUnavailable(f"{vendor} ended the answer before it was finished.")


def nothing_said(vendor: str) -> ProviderRejected:
    """The fault for an answer whose limit was used up, by thoughts, before its first word."""
    return ProviderRejected(
        f"{vendor} answered nothing: it reached its limit of tokens before the first word. "
        "Allow longer answers."
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (a number or a date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    raw = headers.get("retry-after")
    seconds = _number(raw)
    if seconds is not None or not raw:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(raw).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _speaks_of_overflow(refusal: Refusal) -> bool:
    told = f"{refusal.reason} {refusal.message}"
    if refusal.status == 429:
        return bool(_LARGER_THAN_A_MINUTE.search(told))
    return refusal.status in _MAY_MEAN_OVERFLOW and bool(_OVERFLOW.search(told))


def _number(raw: str | None) -> float | None:
    try:
        value = float(raw or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
