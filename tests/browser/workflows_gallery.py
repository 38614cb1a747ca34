"""Takes pictures of workflows on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat_gallery import shot
from tests.browser.gallery import SIZES, THEMES, as_seen
from tests.browser.test_workflows import start
from tests.browser.whole_stack import OpenChat


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_workflows(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = open_window("/workflows/", **as_seen(size, theme, scale=2))
    start(page, "panel")
    expect(page.locator("#flow-head .state")).to_have_text("Complete")
    page.locator("#out-0 summary").click()
    shot(page, f"workflow-complete-{look}")
    page.goto("/workflows/new/?name=digest")
    shot(page, f"workflow-new-{look}")
    start(page, "digest")
    expect(page.locator(".flow-gate")).to_be_visible()
    shot(page, f"workflow-gate-{look}")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("#flow-head .state")).to_have_text("Failed")
    shot(page, f"workflow-failed-{look}")
    start(page, "digest")
    expect(page.locator(".flow-gate")).to_be_visible()
    page.goto("/workflows/")
    shot(page, f"workflows-{look}")
    page.get_by_role("link", name="Start").first.click()
    shot(page, f"workflows-start-{look}")


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_triggers(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = open_window("/workflows/triggers/new/", **as_seen(size, theme, scale=2))
    page.get_by_label("Name").fill("Nightly")
    page.get_by_role("radio", name="At certain times").check()
    page.get_by_label("Times, as cron").fill("99 99")
    page.get_by_role("button", name="Create trigger").click()
    shot(page, f"trigger-wrong-{look}")
    page.get_by_role("radio", name="Another system calls").check()
    page.get_by_label("Starts").select_option("workflow:digest")
    page.get_by_role("button", name="Create trigger").click()
    shot(page, f"trigger-secret-{look}")
    page.get_by_role("link", name="Done").click()
    shot(page, f"trigger-{look}")
