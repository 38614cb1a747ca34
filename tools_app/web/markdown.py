"""Turns a fetched page into text that a model can read."""

from __future__ import annotations

import re

from config.faults import ToolFailed
from tools_app.clip import storable
from tools_app.web.fetch import Page

HTML = frozenset({"text/html", "application/xhtml+xml"})
TEXTS = ("text/", "application/json", "application/xml", "application/javascript")
SUFFIXES = ("+json", "+xml")
SNIFFED = 2_048
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([\w.:-]{2,40})", re.IGNORECASE)


def readable(page: Page) -> str:
    """The page as Markdown, or as it is when it is plain text. Other kinds are refused by name."""
    kind = page.content_type or _sniffed(page.content)
    if kind in HTML:
        # Takes a second to import, which no process should pay that reads no page.
        from tools_app.web.extraction import markdown_of

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
    """A guess for servers that do not say what they send."""
    head = content[:SNIFFED].lower()
    if b"\0" in head:
        return "application/octet-stream"
    return "text/html" if b"<html" in head or b"<!doctype html" in head else "text/plain"
