"""Tests on the real stack that hostile text is never executed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.corpus import CORPUS, WHOLE, injections_in, record_requests
from tests.browser.islands import mounted, press
from tests.browser.talking import answers, approval, begin, hire_boss, rests, say, waiting
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

IMAGE, SCRIPT = CORPUS[0], CORPUS[2]


def unfold(page: Page) -> None:
    """Unfold everything in the conversation."""
    page.locator("[data-lines] details").evaluate_all(
        "all => all.forEach(one => { one.open = true; })"
    )


def test_hostile_text_of_models_tools_and_people_does_not_run_in_a_chat(open_window: OpenChat):
    page = open_window()
    asked = record_requests(page.context)
    begin(page, f"say {WHOLE}")
    expect(answers(page).last).to_contain_text("\u2066")
    rests(page)
    assert injections_in(page) == []

    say(page, f"write to evil.md: {WHOLE}")
    rests(page)
    say(page, "read evil.md")
    expect(answers(page).last).to_contain_text(" says: ")
    rests(page)
    unfold(page)
    assert injections_in(page) == []

    say(page, f"run cat evil.md; echo '{IMAGE}'; sleep 1")
    expect(approval(page).get_by_role("textbox").first).to_have_value(re.compile("onerror"))
    assert injections_in(page) == []
    approval(page).get_by_role("button", name="Allow once").click()
    expect(page.get_by_role("region", name="Output so far")).to_contain_text("onerror")
    assert injections_in(page) == []
    rests(page)

    say(page, "count to 2000")
    say(page, f"say {SCRIPT}")
    expect(waiting(page)).to_contain_text("<script>")
    assert injections_in(page) == []
    page.keyboard.press("Escape")
    expect(answers(page).last).to_contain_text("hit()")
    rests(page)
    page.reload()
    unfold(page)
    assert injections_in(page) == []

    page.goto("/sessions/")
    mounted(page, "browse")
    press(page, "j", "Enter")
    expect(page.locator("[data-pane] h2")).to_contain_text("onerror")
    assert injections_in(page) == []
    press(page, "Control+k")
    assert injections_in(page) == []
    assert asked == []


def test_hostile_text_for_sub_agents_and_the_builder_does_not_run(open_window: OpenChat):
    page = open_window()
    asked = record_requests(page.context)
    begin(hire_boss(page), f"ask a sub-agent to say {IMAGE}", agent="Boss")
    child = page.locator(".child")
    expect(child).to_contain_text("Done")
    child.get_by_text("Result").click()
    expect(child).to_contain_text("onerror")
    assert injections_in(page) == []

    page.goto("/agents/new/")
    page.get_by_label("Describe the agent").fill(f"Make an agent that answers {IMAGE}")
    page.get_by_role("button", name="Build agent").click()
    expect(page.get_by_label("Description", exact=True)).to_have_value(re.compile("onerror"))
    assert injections_in(page) == []
    assert asked == []


def test_hostile_output_of_a_terminal_does_not_run(open_window: OpenChat):
    page = open_window()
    asked = record_requests(page.context)
    begin(page, f"write to evil.md: {WHOLE}")
    rests(page)
    page.get_by_role("button", name="Terminal").click()
    expect(page.locator("[data-term-status]")).to_have_text("Connected")
    typed = page.locator(".xterm-helper-textarea")
    typed.press_sequentially(
        "cat evil.md; printf '\\033]0;<img src=x onerror=hit()>\\007'; echo over\n"
    )
    expect(page.locator(".xterm-rows")).to_contain_text("hit()>")
    expect(page.locator(".xterm-rows")).to_contain_text("over")
    assert injections_in(page) == []
    assert asked == []
