"""Searches the web with the service that the operator chose: Brave, Serper or SearXNG."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import orjson
from django.conf import settings

from core.validation import storable
from tools_app.exceptions import ToolFailed

SECONDS = 20.0
LARGEST_ANSWER = 2_000_000
LONGEST_TITLE, LONGEST_URL, LONGEST_SNIPPET = 300, 2_000, 600
HOW = (
    "Web search is not set up. The operator of Switchyard sets WEB_SEARCH_PROVIDER to brave, serper "
    "or searxng, WEB_SEARCH_KEY to its API key (brave, serper) or WEB_SEARCH_URL to the address of a "
    "SearXNG server that offers the JSON format, and restarts Switchyard."
)


@dataclass(frozen=True, kw_only=True)
class Result:
    title: str
    url: str
    snippet: str


@dataclass(frozen=True, kw_only=True)
class Service:
    """How to query one vendor, and where its response holds the results."""

    address: str
    needs_key: bool
    ask: Callable[[str, int, str], dict[str, Any]]
    results: Callable[[Any], Any]
    url: str
    snippet: str


SERVICES: Mapping[str, Service] = {
    "brave": Service(
        address="https://api.search.brave.com/res/v1/web/search",
        needs_key=True,
        ask=lambda query, count, key: {
            "method": "GET",
            "params": {"q": query, "count": count},
            "headers": {"Accept": "application/json", "X-Subscription-Token": key},
        },
        results=lambda answer: answer["web"]["results"] if "web" in answer else [],
        url="url",
        snippet="description",
    ),
    "serper": Service(
        address="https://google.serper.dev/search",
        needs_key=True,
        ask=lambda query, count, key: {
            "method": "POST",
            "json": {"q": query, "num": count},
            "headers": {"X-API-KEY": key},
        },
        results=lambda answer: answer.get("organic", []),
        url="link",
        snippet="snippet",
    ),
    "searxng": Service(
        address="",
        needs_key=False,
        ask=lambda query, count, key: {
            "method": "GET",
            "params": {"q": query, "format": "json"},
            "headers": {"Accept": "application/json"},
        },
        results=lambda answer: answer["results"],
        url="url",
        snippet="content",
    ),
}


def search(query: str, *, count: int, seconds: float = SECONDS) -> list[Result]:
    """Return the first results. Raise ToolFailed with a message that never contains the key."""
    service = SERVICES.get(settings.WEB_SEARCH_PROVIDER)
    if service is None or (service.needs_key and not settings.WEB_SEARCH_KEY):
        raise ToolFailed(HOW)
    address = settings.WEB_SEARCH_URL or service.address
    if not address:
        raise ToolFailed(HOW)
    if service is SERVICES["searxng"] and not address.rstrip("/").endswith("/search"):
        address = f"{address.rstrip('/')}/search"
    asked = service.ask(query, count, settings.WEB_SEARCH_KEY)
    answer = _answer(address, asked, min(seconds, SECONDS))
    try:
        if not isinstance(answer, dict):
            raise TypeError("an object was expected")
        rows = service.results(answer)
        found = [_result(row, service) for row in rows if isinstance(row, dict)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ToolFailed("The search service sent an unexpected response.") from error
    return [one for one in found if one.url.startswith(("http://", "https://"))][:count]


def _result(row: dict[str, Any], service: Service) -> Result:
    def text(name: str, longest: int) -> str:
        return storable(" ".join(str(row.get(name) or "").split())[:longest])

    return Result(
        title=text("title", LONGEST_TITLE),
        url=text(service.url, LONGEST_URL),
        snippet=text(service.snippet, LONGEST_SNIPPET),
    )


def _answer(address: str, asked: dict[str, Any], seconds: float) -> Any:
    """Send the request. The operator chose the address, so it may be in a private network."""
    until = time.monotonic() + seconds
    try:
        with (
            httpx2.Client(timeout=seconds, trust_env=False) as client,
            client.stream(url=address, **asked) as response,
        ):
            _check(response)
            return orjson.loads(_body(response, until))
    except httpx2.TimeoutException as error:
        raise ToolFailed("The search service did not answer in time.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise ToolFailed(f"The search service could not be reached: {error}.") from error
    except orjson.JSONDecodeError as error:
        raise ToolFailed("The search service did not answer with JSON.") from error


def _body(response: httpx2.Response, until: float) -> bytes:
    held = b""
    for part in response.iter_bytes():
        held += part
        if len(held) > LARGEST_ANSWER:
            raise ToolFailed("The search service sent too large a response.")
        if time.monotonic() > until:
            raise ToolFailed("The search service did not answer in time.")
    return held


def _check(response: httpx2.Response) -> None:
    code = response.status_code
    if code == 200:
        return
    if code in {401, 403}:
        hint = (
            "a SearXNG server must list json under search.formats in its settings.yml"
            if settings.WEB_SEARCH_PROVIDER == "searxng"
            else "check WEB_SEARCH_KEY"
        )
        raise ToolFailed(f"The search service refused the request ({code}): {hint}.")
    if code == 429:
        raise ToolFailed("The search service is rate limiting (429). Try again later.")
    raise ToolFailed(f"The search service answered {code}.")
