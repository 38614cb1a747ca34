"""Takes pictures of the chat on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot
from tests.browser.talking import answers, begin, rests, say, waiting
from tests.browser.whole_stack import OpenChat

REPORT = """say ### What changed

1. `sum.py` adds the numbers from **1 to 100**
2. It needs no library, so it [starts at once](https://docs.python.org/3/)

| file | lines | state |
|---|--:|---|
| sum.py | 1 | new |
"""


def work(page: Page) -> None:
    """Let the agent write and read a file."""
    begin(page, 'Write "print(sum(range(101)))" to sum.py and then read sum.py')
    expect(answers(page).last).to_contain_text("sum.py says")
    rests(page)


def shot(page: Page, name: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    page.mouse.move(0, 0)
    shoot(page, name)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_the_chat(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = open_window(**as_seen(size, theme, scale=2))
    shot(page, f"chat-start-{look}")
    work(page)
    page.locator(".call summary").last.click()
    shot(page, f"chat-calls-{look}")
    say(page, REPORT)
    expect(answers(page).last.locator("td").last).to_be_visible()
    say(page, "count to 400")
    expect(answers(page).last).to_contain_text("30 31")
    say(page, "say and this later")
    expect(waiting(page)).to_have_count(1)
    shot(page, f"chat-answering-{look}")
    page.keyboard.press("Escape")
    expect(page.locator(".is-note")).to_be_visible()
    say(page, "run python3 sum.py")
    expect(page.get_by_role("region", name="Run a command?")).to_be_visible()
    shot(page, f"chat-approval-{look}")
    for name, path in {"sessions": "/sessions/", "providers": "/settings/providers/"}.items():
        page.goto(path)
        shot(page, f"{name}-{look}")


def test_chat_for_the_readme(open_window: OpenChat) -> None:
    """Take the picture of a short conversation that is copied to `docs/images/chat.png`."""
    page = open_window(viewport={"width": 1280, "height": 860}, device_scale_factor=1.5)
    begin(page, 'Write "print(sum(range(101)))" to sum.py and then list the files')
    expect(answers(page).last).to_contain_text("These are the files")
    rests(page)
    say(page, "Run python3 sum.py")
    expect(page.get_by_role("region", name="Run a command?")).to_be_visible()
    expect(page.locator("[data-chat-status]")).to_have_text("Needs you")
    shot(page, "readme-chat")
