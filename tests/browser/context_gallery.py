"""Takes pictures of the context panel and page. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat_gallery import shot
from tests.browser.gallery import SIZES, THEMES, as_seen
from tests.browser.talking import begin, rests, say
from tests.browser.whole_stack import OpenChat


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_the_context(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = open_window(**as_seen(size, theme, scale=2))
    begin(page, "say the plan is in notes/plan.md and Marta decides on YARD-77")
    for nth in range(3):
        rests(page)
        say(page, f"say step {nth} of src/part{nth}.py " + "and more " * 30)
        expect(page.locator(".line.is-agent .prose")).to_have_count(nth + 2)
    rests(page)
    token = page.locator("[name=csrfmiddlewaretoken]").first.get_attribute("value")
    api = page.url.replace("/chat/", "/api/v1/sessions/")
    page.evaluate(
        """([url, token]) => fetch(`${url}compact/`, {method: "POST", body: "{}",
           headers: {"Content-Type": "application/json", "X-CSRFToken": token}})""",
        [api, token],
    )
    expect(page.locator(".line.is-compaction")).to_be_visible()
    page.get_by_role("button", name="View summary").click()
    page.wait_for_timeout(1_500)
    shot(page, f"context-chat-{look}")
    if size == "phone":
        page.locator("[data-inspector]").click()
        shot(page, f"context-panel-{look}")
    page.goto(f"{page.url}context/")
    page.locator("[data-part=messages] > summary").click()
    shot(page, f"context-page-{look}")
