"""Fetches one page within bounds of time and size, through the egress guard."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2

from config.faults import EgressRefused, ToolFailed
from tenants.egress import READ_SECONDS, Resolver, guarded_client
from tenants.redirects import following

LARGEST_PAGE = 3_000_000
CHUNK = 32_768
HEADERS = {
    "User-Agent": "Switchyard/1 (+agent)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1",
    # Only what can be unpacked in bounded steps.
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a server answered. `url` is where the last redirect led."""

    url: str
    content_type: str
    charset: str
    content: bytes
    cut: bool


def fetch(
    url: str,
    *,
    seconds: float,
    check: Callable[[str], None] | None = None,
    resolve: Resolver | None = None,
) -> Page:
    """Get a page, following redirects. Whatever goes wrong is told in words for the model.

    `check` raises for an address that a redirect must not lead to.
    """
    _check_scheme(url)
    client = guarded_client(
        resolve=resolve,
        timeout=min(seconds, READ_SECONDS),
        total=seconds,
        headers=HEADERS,
    )
    try:
        with client, following(client, url, check=check) as response:
            return _read(response)
    except EgressRefused as error:
        raise ToolFailed(error.detail) from error
    except httpx2.TooManyRedirects as error:
        raise ToolFailed(f"{url} redirects too often.") from error
    except httpx2.TimeoutException as error:
        raise ToolFailed(f"{url} did not answer in time.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, zlib.error, UnicodeError) as error:
        raise ToolFailed(f"{url} could not be fetched: {error}.") from error


def _check_scheme(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ToolFailed(f"{url} is not a web address.") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ToolFailed(f"{url} is not a web address. Give one that starts with https://.")


def _read(response: httpx2.Response) -> Page:
    url = str(response.url)
    if response.status_code >= 400:
        raise ToolFailed(f"{url} answered {response.status_code} {response.reason_phrase}.")
    parts: list[bytes] = []
    size = 0
    for part in _unpacked(response):
        parts.append(part)
        size += len(part)
        if size > LARGEST_PAGE:
            break
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Page(
        url=url,
        content_type=kind,
        charset=response.charset_encoding or "",
        content=b"".join(parts)[:LARGEST_PAGE],
        cut=size > LARGEST_PAGE,
    )


def _unpacked(response: httpx2.Response) -> Iterator[bytes]:
    """The body in small pieces, so that a few packed bytes cannot become a full memory."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed in {"", "identity"}:
        yield from response.iter_raw()
        return
    if packed not in {"gzip", "x-gzip", "deflate"}:
        raise ToolFailed(f"{response.url} is packed in a way that cannot be read: {packed}.")
    # 32 lets zlib recognise both of its wrappings.
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    for raw in response.iter_raw():
        while raw:
            yield unpack.decompress(raw, CHUNK)
            raw = unpack.unconsumed_tail
        if unpack.eof:
            return  # what follows the end would only be kept
