"""Takes pictures of the builder on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot
from tests.browser.whole_stack import OpenChat


def shot(page: Page, name: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    page.mouse.move(0, 0)
    shoot(page, name)


def tell(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message Builder").fill(text)
    page.locator("[data-send]").first.click()


def idle(page: Page) -> None:
    expect(page.locator(".build-chat [data-chat-status]")).to_have_text("Idle")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_the_builder(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = open_window("/agents/new/", **as_seen(size, theme))
    shot(page, f"builder-new-{look}")
    page.get_by_label("Describe the agent").fill(
        "Make an agent that answers billing questions. "
        "Let it read files but ask before running commands. "
        "Add a step that checks the invoice and add a step that writes the answer"
    )
    page.get_by_role("button", name="Build agent").click()
    page.get_by_text("Adding the step").last.wait_for()
    page.wait_for_timeout(1500)
    shot(page, f"builder-chat-{look}")
    for tab in ("configure", "canvas", "policy"):
        page.locator(f"[data-tab-link={tab}]").click()
        page.wait_for_timeout(800)
        shot(page, f"builder-{tab}-{look}")
    page.locator("[data-tab-link=preview]").click()
    page.wait_for_url("**/?tab=preview")
    page.get_by_role("textbox", name="Message Billing helper").fill("say Hello from the draft.")
    page.locator(".build-preview [data-send]").click()
    page.get_by_text("Hello from the draft.", exact=True).wait_for()
    shot(page, f"builder-preview-{look}")
    page.goto("/agents/")
    shot(page, f"agents-{look}")
