"""Fetches a web page within limits of time and size, and converts it to Markdown."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Event, Thread
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2
from lxml import etree, html  # type: ignore[import-untyped]

from core.exceptions import EgressRefused
from core.http import READ_SECONDS, Resolver, following, guarded_client
from core.validation import storable
from tools_app.context import LOOK_UP_SECONDS, ToolContext
from tools_app.exceptions import ToolFailed

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
