"""Fetches web pages as Markdown, and searches the web, within limits of time and size."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Event, Thread
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit
from uuid import UUID

import httpx2
import orjson
from django.conf import settings

from agents.providers.keys import may_use_operator_keys
from core.exceptions import EgressRefused
from core.http import READ_SECONDS, Resolver, following, guarded_client
from core.validation import storable
from tools_app.exceptions import ToolFailed
from tools_app.registry import LOOK_UP_SECONDS, ToolContext

Answer = TypeVar("Answer")


def run_until_stopped(work: Callable[[], Answer], context: ToolContext) -> Answer:
    """Return the answer of the work, or raise as soon as the call is stopped or out of time.

    The work must end by itself some time later, have no effect, and use no database: DNS lookups
    and TLS handshakes cannot be interrupted.
    """
    answers: list[Answer] = []
    faults: list[BaseException] = []
    done = Event()

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as fault:  # noqa: BLE001 - raised again in the caller's thread
            faults.append(fault)
        finally:
            done.set()

    Thread(target=run, name=f"tool-{context.call_id}", daemon=True).start()
    while not done.wait(LOOK_UP_SECONDS):
        context.check_stopped()
    if faults:
        raise faults[0]
    return answers[0]


# ── Fetching ─────────────────────────────────────────────────────────────────

LARGEST_PAGE = 3_000_000
CHUNK = 32_768
HEADERS = {
    "User-Agent": "Switchyard/1 (+agent)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.1",
    # Only encodings that can be decoded in bounded steps.
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, kw_only=True)
class Page:
    """The response of a server. `url` is the address after the last redirect."""

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
    """Fetch a page, following redirects. Raise ToolFailed with a message for the model.

    `check` raises for an address that a redirect must not lead to.
    """
    _check_scheme(url)
    client = guarded_client(
        "web",
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
        raise ToolFailed(f"{url} redirects too many times.") from error
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
    """Decode the body in small pieces, so that a small response cannot fill the memory."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed in {"", "identity"}:
        yield from response.iter_raw()
        return
    if packed not in {"gzip", "x-gzip", "deflate"}:
        raise ToolFailed(f"{response.url} uses an unsupported encoding: {packed}.")
    # 32 lets zlib detect gzip and zlib headers.
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    for raw in response.iter_raw():
        while raw:
            yield unpack.decompress(raw, CHUNK)
            raw = unpack.unconsumed_tail
        if unpack.eof:
            return  # What follows the end is ignored.


# ── Converting to Markdown ───────────────────────────────────────────────────

#: The time to find the main text grows faster than the page, so beyond these sizes the whole page is
#: converted, up to the maximum length.
MOST_ELEMENTS = 4_000
LONGEST_SEARCHED = 400_000
LONGEST = 1_000_000
MOST_LINKS = 2_000

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "nav", "iframe"})
_BLOCKS = (
    *("address", "article", "aside", "blockquote", "body", "br", "dd", "div", "dl", "dt"),
    *("fieldset", "figure", "footer", "form", "header", "hr", "main", "ol", "section"),
    *("table", "ul"),
)
_OPENINGS = {
    **{f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)},
    **dict.fromkeys(_BLOCKS, "\n"),
    "li": "\n- ",
    "p": "\n\n",
    "pre": "\n\n```\n",
    "td": " ",
    "th": " ",
    "tr": "\n|",
}
_CLOSINGS = {
    **{f"h{level}": "\n\n" for level in range(1, 7)},
    **dict.fromkeys(_BLOCKS, "\n"),
    "p": "\n\n",
    "pre": "\n```\n\n",
    "td": " |",
    "th": " |",
}
_SPACE = re.compile(r"\s+")
_GAP = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")


def markdown_of(text: str, url: str) -> str:
    """Return the main text of the page, or all of its text if no main part is found."""
    tree = _parsed(text[:LONGEST])
    if tree is None:
        return ""
    if len(text) <= LONGEST_SEARCHED and sum(1 for _ in tree.iter()) <= MOST_ELEMENTS:
        found = _main_text(text, url)
        if found:
            return _titled(found, tree)
    return _titled(_GAP.sub("\n\n", "".join(_written(tree, url))).strip(), tree)


def _main_text(text: str, url: str) -> str | None:
    # trafilatura takes a second to import, which a process that reads no page should not pay.
    from trafilatura import extract
    from trafilatura.settings import use_config

    config = use_config()
    # Short pages count too: by default their structure is dropped.
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "0")
    return extract(
        text,
        url=url,
        output_format="markdown",
        include_links=True,
        include_formatting=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
        config=config,
    )


def _parsed(text: str) -> Any:
    from lxml import etree, html  # type: ignore[import-untyped]  # only for processes that read pages

    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        return html.document_fromstring(text.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return None


def _titled(text: str, tree: Any) -> str:
    title = _SPACE.sub(" ", tree.findtext(".//title") or "").strip()
    return f"# {title}\n\n{text}" if title and title not in text[:500] else text


def _written(tree: Any, url: str) -> Iterator[str]:
    """Yield every element once, in order, so that the time grows linearly with the page."""
    from lxml import etree

    walk = etree.iterwalk(tree, events=("start", "end"))
    addresses = dict(islice(_links(tree, url), MOST_LINKS))
    preformatted = 0
    for event, element in walk:
        tag = element.tag
        if event == "start":
            if tag in _SKIPPED:
                walk.skip_subtree()
                continue
            preformatted += tag == "pre"
            yield _OPENINGS.get(tag, "[" if element in addresses else "")
            yield _spaced(element.text, preformatted)
            continue
        if tag not in _SKIPPED:
            address = addresses.get(element)
            yield _CLOSINGS.get(tag, f"]({address})" if address else "")
            preformatted -= tag == "pre"
        yield _spaced(element.tail, preformatted)


def _links(tree: Any, url: str) -> Iterator[tuple[Any, str]]:
    for element in tree.iter("a"):
        href = str(element.get("href") or "")
        if href and not href.startswith(("#", "javascript:")) and element.text_content().strip():
            yield element, _absolute(url, href)


def _absolute(url: str, href: str) -> str:
    try:
        return urljoin(url, href)
    except ValueError:
        return href


def _spaced(text: str | None, preformatted: int) -> str:
    if not text:
        return ""
    return text if preformatted else _SPACE.sub(" ", text)


HTML = frozenset({"text/html", "application/xhtml+xml"})
TEXTS = ("text/", "application/json", "application/xml", "application/javascript")
SUFFIXES = ("+json", "+xml")
SNIFFED = 2_048
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([\w.:-]{2,40})", re.IGNORECASE)


def readable(page: Page) -> str:
    """Return the page as Markdown, or unchanged if it is plain text. Raise ToolFailed for others."""
    kind = page.content_type or _sniffed(page.content)
    if kind in HTML:
        found = markdown_of(_text(page), page.url)
        return storable(found or "[The page has no text to read.]")
    if kind.startswith(TEXTS) or kind.endswith(SUFFIXES):
        return storable(_text(page))
    raise ToolFailed(
        f"{page.url} is {kind} ({len(page.content):,} bytes), which cannot be read as text."
    )


def _text(page: Page) -> str:
    declared = _CHARSET.search(page.content[:SNIFFED])
    charset = page.charset or (declared[1].decode("ascii") if declared else "utf-8")
    try:
        return page.content.decode(charset, "replace")
    except (LookupError, ValueError):
        return page.content.decode("utf-8", "replace")


def _sniffed(content: bytes) -> str:
    """Guess the type if the server did not send one."""
    head = content[:SNIFFED].lower()
    if b"\0" in head:
        return "application/octet-stream"
    return "text/html" if b"<html" in head or b"<!doctype html" in head else "text/plain"


# ── Searching ────────────────────────────────────────────────────────────────

SERVICE_SECONDS = 20.0
LARGEST_ANSWER = 2_000_000
LONGEST_TITLE, LONGEST_URL, LONGEST_SNIPPET = 300, 2_000, 600
SETUP_HINT = (
    "Web search is not set up. The operator of Switchyard sets WEB_SEARCH_PROVIDER to brave, serper "
    "or searxng, WEB_SEARCH_KEY to its API key (brave, serper) or WEB_SEARCH_URL to the address of a "
    "SearXNG server that offers the JSON format, and restarts Switchyard."
)
NOT_SERVED = (
    "The search key of this installation does not serve this workspace. The operator of Switchyard "
    "decides that with OPERATOR_KEYS. Ask for the address of a page instead."
)


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    title: str
    url: str
    snippet: str


@dataclass(frozen=True, kw_only=True)
class SearchService:
    """How to query one vendor, and where its response holds the results."""

    address: str
    needs_key: bool
    ask: Callable[[str, int, str], dict[str, Any]]
    results: Callable[[Any], Any]
    url: str
    snippet: str


SERVICES: Mapping[str, SearchService] = {
    "brave": SearchService(
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
    "serper": SearchService(
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
    "searxng": SearchService(
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


def check_may_search(workspace_id: UUID) -> None:
    """Raise ToolFailed unless the operator's key for searches serves this workspace."""
    service = SERVICES.get(settings.WEB_SEARCH_PROVIDER)
    needs_key = service is not None and service.needs_key and bool(settings.WEB_SEARCH_KEY)
    if needs_key and not may_use_operator_keys(workspace_id):
        raise ToolFailed(NOT_SERVED)


def search(query: str, *, count: int, seconds: float = SERVICE_SECONDS) -> list[SearchResult]:
    """Return the first results. Raise ToolFailed with a message that never contains the key."""
    service = SERVICES.get(settings.WEB_SEARCH_PROVIDER)
    if service is None or (service.needs_key and not settings.WEB_SEARCH_KEY):
        raise ToolFailed(SETUP_HINT)
    address = settings.WEB_SEARCH_URL or service.address
    if not address:
        raise ToolFailed(SETUP_HINT)
    if service is SERVICES["searxng"] and not address.rstrip("/").endswith("/search"):
        address = f"{address.rstrip('/')}/search"
    asked = service.ask(query, count, settings.WEB_SEARCH_KEY)
    answer = _query(address, asked, min(seconds, SERVICE_SECONDS))
    try:
        if not isinstance(answer, dict):
            raise TypeError("an object was expected")
        rows = service.results(answer)
        found = [_result(row, service) for row in rows if isinstance(row, dict)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ToolFailed("The search service sent an unexpected response.") from error
    return [one for one in found if one.url.startswith(("http://", "https://"))][:count]


def _result(row: dict[str, Any], service: SearchService) -> SearchResult:
    def text(name: str, longest: int) -> str:
        return storable(" ".join(str(row.get(name) or "").split())[:longest])

    return SearchResult(
        title=text("title", LONGEST_TITLE),
        url=text(service.url, LONGEST_URL),
        snippet=text(service.snippet, LONGEST_SNIPPET),
    )


def _query(address: str, asked: dict[str, Any], seconds: float) -> Any:
    """Send the request. The operator chose the address, so it may be in a private network."""
    until = time.monotonic() + seconds
    try:
        with (
            httpx2.Client(timeout=seconds, trust_env=False) as client,
            client.stream(url=address, **asked) as response,
        ):
            _check_status(response)
            return orjson.loads(_read_answer(response, until))
    except httpx2.TimeoutException as error:
        raise ToolFailed("The search service did not answer in time.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise ToolFailed(f"The search service could not be reached: {error}.") from error
    except orjson.JSONDecodeError as error:
        raise ToolFailed("The search service did not answer with JSON.") from error


def _read_answer(response: httpx2.Response, until: float) -> bytes:
    held = b""
    for part in response.iter_bytes():
        held += part
        if len(held) > LARGEST_ANSWER:
            raise ToolFailed("The search service sent too large a response.")
        if time.monotonic() > until:
            raise ToolFailed("The search service did not answer in time.")
    return held


def _check_status(response: httpx2.Response) -> None:
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
