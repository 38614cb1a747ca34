"""Tests of a running command's output in the chat, on the real stack with a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.axe import faults_of
from tests.browser.looks import PHONE
from tests.browser.talking import answers, approval, begin, rests
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
LOOP = "run for n in $(seq 1 90); do echo line $n of the build; sleep 0.15; done"


def test_the_output_of_a_command_is_shown_while_it_runs(open_window: OpenChat, tmp_path):
    page = begin(open_window(), LOOP)
    approval(page).get_by_role("button", name="Allow").first.click()
    live = page.get_by_role("region", name="Output so far")
    expect(live).to_contain_text("line 3 of the build\n")
    assert faults_of(page) == []
    page.screenshot(path=str(tmp_path / "live.png"))
    page.reload()
    expect(live).to_contain_text("line 20 of the build\n")
    second = open_window(page.url, viewport=PHONE, color_scheme="dark")
    other = second.get_by_role("region", name="Output so far")
    expect(other).to_contain_text("line 40 of the build\n")
    # The newest line is visible because the reader has not scrolled.
    assert other.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") < 30
    second.screenshot(path=str(tmp_path / "live-phone.png"))
    for window in (page, second):
        expect(answers(window).last).to_contain_text(" printed:")
        rests(window)
        expect(window.get_by_role("region", name="Output so far")).to_have_count(0)
        expect(window.locator(".call")).to_have_attribute("data-state", "completed")
