"""Markdown that agents wrote, as HTML that is safe to show without a script.

No HTML of the text's own passes, no image is loaded, and links lead to http(s) and mailto only.
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


def render(text: str) -> SafeString:
    return mark_safe(_renderer().render(text))  # noqa: S308 - see above


@cache
def _renderer() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.validateLink = lambda url: url.strip().lower().startswith(ALLOWED)  # type: ignore[method-assign]
    made.add_render_rule("image", _image)
    made.add_render_rule("link_open", _link)
    made.add_render_rule("heading_open", lambda _, tokens, at, *rest: f"<{_deeper(tokens[at])}>")
    made.add_render_rule(
        "heading_close", lambda _, tokens, at, *rest: f"</{_deeper(tokens[at])}>\n"
    )
    for cell in ("th_open", "td_open"):
        # Their alignment is an inline style, which the content security policy refuses.
        made.add_render_rule(cell, lambda _, tokens, at, *rest: f"<{tokens[at].tag}>")
    # A wide table scrolls by itself, not the page.
    made.add_render_rule("table_open", lambda *_: f"{TABLE_BOX}<table>")
    made.add_render_rule("table_close", lambda *_: "</table></div>")
    return made


def plain(text: str) -> str:
    """What a reader sees of it, on one line and without the signs of Markdown.

    A heading, an item or a cell ends in no full stop: a dot keeps it apart from what follows.
    """
    pieces = (" ".join(words.split()) for words in _words(_renderer().parse(text)))
    line = ""
    for piece in filter(None, pieces):
        line += f"{_between(line)}{piece}"
    return line


def _between(line: str) -> str:
    if not line:
        return ""
    return " " if line[-1] in ".!?:;,…" else " · "


def _words(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "inline":
            # Signs stand between letters of one word: "re**bui**ld".
            yield "".join(_words_inside(token.children or []))
        elif token.type in {"fence", "code_block"}:
            yield token.content


def _words_inside(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        yield " " if token.type in {"softbreak", "hardbreak"} else token.content


def excerpt(text: str, longest: int = 90) -> str:
    """The beginning in plain words, for a line of a list."""
    words = plain(text[: 4 * longest])
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _image(renderer: Any, tokens: Any, at: int, *rest: Any) -> str:
    """An image would tell its server who reads this; its words do not."""
    return escape(tokens[at].content)


def _link(renderer: Any, tokens: Any, at: int, *rest: Any) -> str:
    address = escape(str(tokens[at].attrGet("href") or ""))
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer nofollow">'


def _deeper(token: Any) -> str:
    """The page has headings of its own above these."""
    return f"h{min(6, int(token.tag[1:]) + 2)}"
