"""Takes pictures of approvals on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat_gallery import shot
from tests.browser.gallery import SIZES, THEMES, as_seen
from tests.browser.talking import begin
from tests.browser.whole_stack import OpenChat


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_approvals(open_window: OpenChat, size: str, theme: str) -> None:
    look = as_seen(size, theme)
    if (size, theme) == (next(iter(SIZES)), THEMES[0]):
        shot(open_window("/approvals/", **look), f"approvals-empty-{size}-{theme}")
    page = open_window(**look)
    for command in ("git status --short", "python3 -m pytest -q tests && echo done"):
        begin(page, f"run {command}")
        expect(page.locator(".approval")).to_be_visible()
        shot(page, f"chat-asks-{size}-{theme}")
        page.goto("/chat/")
    page.goto("/approvals/")
    expect(page.locator("[data-pending] .approval").first).to_be_visible()
    page.locator("[data-pending] .approval").first.get_by_role("button", name="For this").click()
    expect(page.locator(".inbox-past > li").first).to_be_visible()
    shot(page, f"approvals-{size}-{theme}")
    page.goto("/chat/")
