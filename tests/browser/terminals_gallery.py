"""Takes pictures of terminals on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat_gallery import shot
from tests.browser.gallery import SIZES, THEMES, as_seen
from tests.browser.test_terminals import open_terminal, screen, type_line
from tests.browser.whole_stack import OpenChat


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_terminals(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    opened = open_terminal(open_window())
    page = open_window(opened.url, **as_seen(size, theme))
    expect(page.locator("[data-term-status]")).to_have_text("Connected")
    type_line(page, "ls --color -la /; echo done $((1 + 1))")
    expect(screen(page)).to_contain_text("done 2")
    shot(page, f"terminal-{look}")
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Create link").click()
    expect(page.locator("#share-link")).to_contain_text("?token=")
    shot(page, f"terminal-share-{look}")
    page.goto("/settings/terminals/")
    shot(page, f"terminals-{look}")
