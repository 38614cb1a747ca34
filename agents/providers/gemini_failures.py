"""What google-genai raises, turned into faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from google.genai import errors

from agents.providers.failures import Refusal, cut_short, fault_of, retry_after, unreachable
from config.faults import ProviderFault, ProviderRejected

VENDOR = "Gemini"


@contextmanager
def faults(key: str) -> Iterator[None]:
    """Turn the SDK's errors into faults, without the SDK's text, which may quote the key."""
    try:
        yield
    except errors.APIError as error:
        raise _fault(error, key) from None
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise unreachable(VENDOR, error, key) from None
    except errors.UnknownApiResponseError:
        raise cut_short(VENDOR) from None
    except httpx2.InvalidURL as error:
        raise ProviderRejected(f"The address of {VENDOR} is not valid: {error}") from None


def _fault(error: errors.APIError, key: str) -> ProviderFault:
    details = _details(error.details)
    headers = getattr(error.response, "headers", None) or {}
    return fault_of(
        Refusal(
            vendor=VENDOR,
            status=error.code or 500,
            message=str(error.message or error.status or ""),
            reason=next((str(detail["reason"]) for detail in details if "reason" in detail), ""),
            retry_after=_retry_delay(details) or retry_after(headers),
            secret=key,
        )
    )


def _details(body: Any) -> list[dict[str, Any]]:
    error = body.get("error", body) if isinstance(body, dict) else {}
    details = error.get("details") if isinstance(error, dict) else None
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _retry_delay(details: list[dict[str, Any]]) -> float | None:
    """The wait in a `google.rpc.RetryInfo`, written like `27s` or `0.5s`."""
    for detail in details:
        try:
            return float(str(detail["retryDelay"]).removesuffix("s"))
        except (KeyError, ValueError):
            continue
    return None
