"""Posts one signed body to an address that somebody named, within bounds of time and size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from standardwebhooks import Webhook as Signer

from config.faults import EgressRefused
from tenants.egress import Resolver, guarded_client

SECONDS = 15.0
LARGEST_SNIPPET = 1_000
USER_AGENT = "Switchyard-Webhooks/1"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the endpoint said. Without a status nothing was heard, and the snippet says why."""

    status: int | None
    snippet: str
    duration_ms: int
    #: Seconds that the endpoint asks to be left alone for.
    retry_after: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def headers_for(message_id: str, body: str, secrets: Sequence[str]) -> dict[str, str]:
    """The headers of the standard, with one signature per secret."""
    now = datetime.now(UTC)
    return {
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(
            Signer(secret).sign(message_id, now, body) for secret in secrets
        ),
    }


def post(
    url: str,
    *,
    message_id: str,
    body: str,
    secrets: Sequence[str],
    seconds: float = SECONDS,
    resolve: Resolver | None = None,
) -> Answer:
    """Send once. Redirects are not followed: the address was checked, another one was not."""
    began = time.monotonic()
    headers = headers_for(message_id, body, secrets)
    try:
        with (
            guarded_client(resolve=resolve, timeout=seconds, total=seconds) as client,
            client.stream("POST", url, content=body.encode(), headers=headers) as response,
        ):
            snippet, wait = _beginning(response), _retry_after(response)
            status: int | None = response.status_code
    except EgressRefused as refused:
        status, snippet, wait = None, refused.detail, None
    except httpx2.TimeoutException:
        status, snippet, wait = None, f"No answer within {seconds:g} s.", None
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, ValueError) as error:
        status, snippet, wait = None, f"Could not be reached: {error}", None
    return Answer(
        status=status,
        snippet=printable(snippet),
        duration_ms=int((time.monotonic() - began) * 1000),
        retry_after=wait,
    )


def _beginning(response: httpx2.Response) -> str:
    """The first bytes as they come, packed or not: nobody unpacks a stranger's archive for a log."""
    held = b""
    try:
        for part in response.iter_raw():
            held += part[:LARGEST_SNIPPET]
            if len(held) >= LARGEST_SNIPPET:
                break
    except httpx2.HTTPError:
        pass  # the status has come, and that is what counts
    return held[:LARGEST_SNIPPET].decode("utf-8", "replace")


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds, from a number or from a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def printable(text: str) -> str:
    """Text that PostgreSQL and a page can hold."""
    kept = "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text)
    return kept[:LARGEST_SNIPPET]
