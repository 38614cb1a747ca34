"""Finds what an HTML page says and writes it as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from lxml import etree, html  # type: ignore[import-untyped]
from trafilatura import extract
from trafilatura.settings import use_config

#: Finding the main text takes time that grows faster than the page: beyond these sizes all of the
#: page is written, up to a length at which nobody reads on.
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

#: Short pages count too: by default their structure is dropped.
_SETTINGS = use_config()
_SETTINGS.set("DEFAULT", "MIN_EXTRACTED_SIZE", "0")


def markdown_of(text: str, url: str) -> str:
    """The main text of the page; all of its text when no main part is found."""
    tree = _parsed(text[:LONGEST])
    if tree is None:
        return ""
    if len(text) <= LONGEST_SEARCHED and sum(1 for _ in tree.iter()) <= MOST_ELEMENTS:
        found = extract(
            text,
            url=url,
            output_format="markdown",
            include_links=True,
            include_formatting=True,
            include_tables=True,
            include_comments=False,
            favor_recall=True,
            config=_SETTINGS,
        )
        if found:
            return _titled(found, tree)
    return _titled(_GAP.sub("\n\n", "".join(_written(tree, url))).strip(), tree)


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
    """Every element once, in order, so that the time grows only with the page."""
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
