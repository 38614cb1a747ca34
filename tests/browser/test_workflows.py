"""Tests of workflows in the browser on the real stack: starting, watching, approving, ending."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.axe import faults_of
from tests.browser.whole_stack import OpenChat


def start(page: Page, name: str) -> None:
    page.goto("/workflows/")
    page.get_by_role("link", name="Start", exact=False).first.click()
    page.locator(".flow-choices").get_by_role("link", name=re.compile(f"^{name}")).click()
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile(r"/workflows/[0-9a-f-]{36}/$"))


def test_a_digest_can_be_started_watched_live_and_approved(open_window: OpenChat) -> None:
    page = open_window("/workflows/")
    assert faults_of(page) == []
    start(page, "digest")
    # The updates arrive over the socket, without a reload.
    expect(page.locator(".flow-gate")).to_be_visible()
    expect(page.locator("#flow-head .state")).to_have_text("Needs you")
    assert faults_of(page) == []
    note = page.get_by_label("Note")
    note.fill("fine by me")
    note.press("Enter")  # Enter neither approves nor rejects; only the buttons and their keys do.
    expect(page.locator("#flow-head .state")).to_have_text("Needs you")
    note.press("Control+Enter")
    expect(page.locator("#flow-head .state")).to_have_text("Complete")
    expect(page.locator("#flow-out")).to_contain_text("digests/")
    assert faults_of(page) == []
    page.goto("/workflows/")
    expect(page.locator("tbody tr").first).to_contain_text("Complete")
    assert faults_of(page) == []


def test_a_rejected_digest_shows_the_reason_and_can_be_retried(open_window: OpenChat) -> None:
    page = open_window("/workflows/")
    start(page, "digest")
    page.get_by_label("Note").fill("too dull")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("#flow-head .flash")).to_contain_text(": too dull")
    page.get_by_role("button", name="Retry from").click()
    expect(page.locator(".flow-gate")).to_be_visible()
    page.locator("#act-end").click()
    page.get_by_role("button", name="Terminate", exact=True).click()
    expect(page.locator("#flow-head .state")).to_have_text("Terminated")


def test_two_windows_see_the_same_workflow_proceed(open_window: OpenChat) -> None:
    one = open_window("/workflows/")
    start(one, "panel")
    other = open_window(one.url)
    for page in (one, other):
        expect(page.locator("#flow-head .state")).to_have_text("Complete")
        expect(page.locator("#flow-log li")).to_have_count(2)
    one.get_by_role("link", name="ask: open").first.click()
    expect(one.locator("#flow-head .state")).to_have_text("Complete")
