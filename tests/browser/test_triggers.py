"""Tests of triggers in the browser: created with the keyboard, corrected, removed; on a phone."""

from __future__ import annotations

import re

import httpx2
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_of
from tests.browser.looks import PHONE
from tests.browser.whole_stack import OpenChat

OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_a_schedule_is_created_with_the_keyboard_and_errors_are_shown_at_their_fields(
    open_window: OpenChat,
) -> None:
    page = open_window("/workflows/triggers/new/")
    assert faults_of(page) == []
    page.get_by_label("Name").focus()
    page.keyboard.type("Nightly")
    press(page, "Tab")
    page.keyboard.type("digest")
    press(page, "Tab", "ArrowDown")  # changes the kind from webhook to schedule
    expect(page.get_by_label("Verification")).to_be_hidden()
    press(page, "Tab")
    expect(page.get_by_role("textbox", name="Cron expression")).to_be_focused()
    page.keyboard.type("99 99")
    press(page, "Enter")

    expect(page.locator(".for-schedule .field-error")).to_contain_text("not a cron expression")
    assert faults_of(page) == []
    page.get_by_role("textbox", name="Cron expression").fill("0 9 * * 1-5")
    page.get_by_label("Input").fill('{"topics": 1}')
    press(page, "Tab", "Tab", "Enter")
    expect(page.locator(".field-error")).to_contain_text("topics")
    page.get_by_label("Input").fill('{"topic": "Trains"}')
    press(page, "Tab", "Tab", "Enter")

    expect(page).to_have_url(re.compile(r"/workflows/triggers/[0-9a-f-]{36}/$"))
    expect(page.get_by_text("No runs yet.")).to_be_visible()
    assert faults_of(page) == []
    page.get_by_role("button", name="Pause").press("Enter")
    expect(page.locator(".bar .state, header .state").first).to_have_text("Paused")
    page.locator("summary", has_text="Remove").press("Enter")
    press(page, "Tab", "Enter")
    expect(page).to_have_url(re.compile(r"/workflows/$"))
    expect(page.get_by_text("Nightly was removed.")).to_be_visible()


def test_a_webhook_starts_a_workflow_and_its_page_shows_it_on_a_phone(
    open_window: OpenChat,
) -> None:
    page = open_window("/workflows/triggers/new/", viewport=PHONE, has_touch=True)
    page.get_by_label("Name").fill("Deploy hook")
    page.get_by_label("Starts").select_option("workflow:digest")
    page.get_by_label("Verification").select_option("token")
    page.get_by_role("button", name="Create trigger").click()
    address = page.locator("#hook-address").inner_text()
    secret = page.locator("#hook-secret").inner_text()
    assert faults_of(page) == []
    bearer = {"Authorization": f"Bearer {secret}"}
    refused = httpx2.post(address, json={}, headers={"Authorization": "Bearer no"}, trust_env=False)
    called = httpx2.post(address, json={"topic": "x"}, headers=bearer, trust_env=False)
    assert (refused.status_code, called.status_code) == (401, 202)

    page.get_by_role("link", name="Done").click()
    expect(page.locator(".flow-firings li")).to_have_count(1)
    assert secret not in page.content()
    for words in ("Roll secret", "Remove"):
        page.locator("summary", has_text=words).click()
        assert not page.evaluate(OVERFLOWS), words
        page.keyboard.press("Escape")
    page.get_by_role("link", name="Open run").click()
    expect(page.locator("#flow-head .state")).to_be_visible()
    page.goto("/workflows/")
    assert not page.evaluate(OVERFLOWS)
    assert faults_of(page) == []
