"""What the openai SDK raises, turned into faults."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx2
import openai

from agents.providers.failures import Refusal, cut_short, fault_of, retry_after, unreachable
from config.faults import ProviderFault, ProviderRejected

VENDOR = "The OpenAI-compatible server"
#: Words by which a server says that it does not know a field, rather than dislikes its value.
_UNKNOWN_FIELD = ("unsupported", "not support", "unknown", "unrecognized", "extra", "not permitted")
#: Words in the code of an error inside a stream that make it the request's fault.
_REQUEST_AT_FAULT = ("invalid", "context", "content", "quota")


@contextmanager
def faults(key: str) -> Iterator[None]:
    """Turn the SDK's errors into faults, without the SDK's text, which may quote the key."""
    try:
        yield
    except openai.APIStatusError as error:
        raise _fault(error, error.status_code, key, retry_after(error.response.headers)) from None
    except openai.APIConnectionError as error:
        cause = error.__cause__
        raise unreachable(VENDOR, cause if isinstance(cause, Exception) else error, key) from None
    except openai.APIError as error:
        raise _fault(error, _status_in_stream(error.code or ""), key) from None
    except json.JSONDecodeError:
        raise cut_short(VENDOR) from None
    except httpx2.InvalidURL as error:
        raise ProviderRejected(f"The address of the server is not valid: {error}") from None
    except (httpx2.HTTPError, httpx2.StreamError, openai.OpenAIError, OSError) as error:
        raise unreachable(VENDOR, error, key) from None


def refused_option(error: openai.APIStatusError, sent: Iterable[str]) -> str | None:
    """Which of the fields that were sent this refusal calls unknown, if any."""
    complaint = str(error.message).lower()
    if not any(word in complaint for word in _UNKNOWN_FIELD):
        return None
    return next((one for one in sent if one == error.param or one in complaint), None)


def _status_in_stream(code: str) -> int:
    """A stream that began well may still end in an error, whose code is a number or a word."""
    if code.isdecimal():
        return int(code)
    if code == "rate_limit_exceeded":
        return 429
    return 400 if any(word in code for word in _REQUEST_AT_FAULT) else 500


def _fault(
    error: openai.APIError, status: int, key: str, wait: float | None = None
) -> ProviderFault:
    body = error.body if isinstance(error.body, dict) else {}
    return fault_of(
        Refusal(
            vendor=VENDOR,
            status=status,
            message=str(body.get("message") or error.message),
            reason=str(error.code or error.type or ""),
            retry_after=wait,
            secret=key,
        )
    )
