"""Takes pictures of a chat's states on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat_gallery import shot
from tests.browser.gallery import SIZES, THEMES, as_seen
from tests.browser.talking import answers, approval, begin, hire_boss, rests, say, waiting
from tests.browser.test_chat_work import MORE, NOTES
from tests.browser.whole_stack import OpenChat

LOOKS = [(size, theme) for size in SIZES for theme in THEMES]


def open_look(open_window: OpenChat, size: str, theme: str) -> Page:
    return open_window(**as_seen(size, theme))


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_pictures_of_calls(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = begin(open_look(open_window, size, theme), "read nowhere.txt")
    rests(page)
    say(page, "run echo never")
    approval(page).get_by_role("button", name="Deny").click()
    rests(page)
    say(page, "run for n in 1 2 3 4 5 6; do echo line $n; sleep 1; done")
    approval(page).get_by_role("button", name="Allow once").click()
    expect(page.locator(".call-live").last).to_contain_text("line 2")
    shot(page, f"state-live-output-{look}")
    rests(page)
    for summary in page.locator(".call > summary").all():
        summary.click()
    shot(page, f"state-calls-open-{look}")
    say(page, "count to 300")
    expect(answers(page).last).to_contain_text("20 21")
    for words in ("say first in the queue", "say second in the queue, a longer one " * 4):
        say(page, words)
    expect(waiting(page)).to_have_count(2)
    shot(page, f"state-queue-{look}")
    page.get_by_role("textbox", name="Message Coder").press("Escape")
    expect(page.locator(".is-note").last).to_be_visible()
    page.locator("[type=file]").set_input_files([NOTES, MORE])
    expect(page.locator(".file-chip")).to_have_count(2)
    shot(page, f"state-files-{look}")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_pictures_of_sub_agents(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = hire_boss(open_look(open_window, size, theme))
    begin(page, "ask a sub-agent to run echo from-below", "Boss")
    expect(approval(page)).to_contain_text("run echo from-below")
    shot(page, f"state-child-asks-{look}")
    page.locator(".child").get_by_role("button", name="Preview").click()
    expect(page.locator(".beside .bubble")).to_contain_text("run echo from-below")
    shot(page, f"state-child-beside-{look}")
    page.reload()
    approval(page).get_by_role("button", name="Allow once").click()
    expect(page.locator(".child")).to_contain_text("Done")
    page.locator(".child").get_by_text("Result").click()
    shot(page, f"state-child-done-{look}")
    if size == "wide":
        page.keyboard.press("Control+k")
        page.keyboard.type("mem")
        shot(page, f"state-palette-{look}")
        page.keyboard.press("Escape")
    page.locator("[data-inspector]").click()
    shot(page, f"state-inspector-{look}")
