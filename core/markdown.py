"""Renders untrusted Markdown to safe HTML or to plain text.

HTML in the text is escaped, images are not loaded, and links lead to http(s) and mailto only, with
one exception: the demo provider links to the page where people connect a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

TABLE_BOX = '<div class="table-box" tabindex="0" role="region" aria-label="Table">'
ALLOWED = ("http://", "https://", "mailto:")
CONNECT = "/settings/providers/"


def render(text: str) -> SafeString:
    return mark_safe(_renderer().render(text))  # noqa: S308 - see above


@cache
def _renderer() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.validateLink = _may_link  # type: ignore[method-assign]
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("heading_open", lambda _, tokens, i, *rest: f"<{_heading(tokens[i])}>")
    parser.add_render_rule(
        "heading_close", lambda _, tokens, i, *rest: f"</{_heading(tokens[i])}>\n"
    )
    for cell in ("th_open", "td_open"):
        # Alignment would be an inline style, which the content security policy refuses.
        parser.add_render_rule(cell, lambda _, tokens, i, *rest: f"<{tokens[i].tag}>")
    # A wide table scrolls in its own box instead of widening the page.
    parser.add_render_rule("table_open", lambda *_: f"{TABLE_BOX}<table>")
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def _may_link(url: str) -> bool:
    return url == CONNECT or url.strip().lower().startswith(ALLOWED)


def plain(text: str) -> str:
    """Return the text on one line without Markdown syntax.

    Headings, items and cells usually end without punctuation, so a dot separates them.
    """
    pieces = (" ".join(words.split()) for words in _block_texts(_renderer().parse(text)))
    line = ""
    for piece in filter(None, pieces):
        line += f"{_separator(line)}{piece}"
    return line


def _separator(line: str) -> str:
    if not line:
        return ""
    return " " if line[-1] in ".!?:;,…" else " · "


def _block_texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            # Joined without spaces, as syntax may split a word: "re**bui**ld".
            yield "".join(_inline_texts(token.children or []))
        elif token.type in {"fence", "code_block"}:
            yield token.content


def _inline_texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        yield " " if token.type in {"softbreak", "hardbreak"} else token.content


def excerpt(text: str, longest: int = 90) -> str:
    """Return the beginning as plain text, for a line of a list."""
    line = plain(text[: 4 * longest])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _image(renderer: Any, tokens: Any, index: int, *rest: Any) -> str:
    """Render the text of an image only, because loading it would tell its server about the reader."""
    return escape(tokens[index].content)


def _link(renderer: Any, tokens: Any, index: int, *rest: Any) -> str:
    address = escape(str(tokens[index].attrGet("href") or ""))
    if address == CONNECT:
        return f'<a href="{CONNECT}">'
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer nofollow">'


def _heading(token: Any) -> str:
    """Return the tag of a heading, two levels deeper, below the headings of the page."""
    return f"h{min(6, int(token.tag[1:]) + 2)}"
