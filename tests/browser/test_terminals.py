"""Tests of a terminal in the browser on the real stack: input, reconnecting, sharing, closing."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import faults_of
from tests.browser.looks import PHONE
from tests.browser.talking import begin, rests
from tests.browser.whole_stack import OpenChat
from tests.stack.running import Running


def screen(page: Page) -> Locator:
    return page.locator(".xterm-rows")


def type_line(page: Page, text: str) -> None:
    page.locator(".xterm-helper-textarea").press_sequentially(f"{text}\n")


def open_terminal(page: Page) -> Page:
    begin(page, "say hello")
    rests(page)
    page.get_by_role("button", name="Terminal").click()
    expect(page).to_have_url(re.compile(r"/terminals/[0-9a-f-]{36}/$"))
    expect(page.locator("[data-term-status]")).to_have_text("Connected")
    expect(screen(page)).to_contain_text("$")
    return page


def test_a_shell_survives_a_reload_and_a_restart_of_the_web_server(
    open_window: OpenChat, stack: Running
) -> None:
    page = open_terminal(open_window())
    type_line(page, "echo hi $((40 + 2))")
    expect(screen(page)).to_contain_text("hi 42")
    assert faults_of(page) == []
    page.reload()
    expect(screen(page)).to_contain_text("hi 42")
    # The shell runs in its own process, so a new web server shows the same shell.
    for name in ("web", "web-2"):
        stack.wait_until_replaced(name, stack.kill(name))
    expect(page.locator("[data-term-status]")).to_have_text("Connected")
    type_line(page, "echo again $((1 + 1))")
    expect(screen(page)).to_contain_text("again 2")
    expect(screen(page)).to_contain_text("hi 42")


def test_a_shared_link_shows_the_screen_and_accepts_no_input(open_window: OpenChat) -> None:
    page = open_terminal(open_window())
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Create link").click()
    expect(page.locator("#share-link")).to_contain_text("?token=")
    assert faults_of(page) == []
    link = page.locator("#share-link").inner_text()
    page.keyboard.press("Escape")
    watcher = open_window(link)
    expect(watcher.locator("[data-term-status]")).to_have_text("Watching")
    type_line(page, "echo seen $((3 + 4))")
    expect(screen(watcher)).to_contain_text("seen 7")
    type_line(watcher, "echo not $((3 + 5))")
    type_line(page, "echo last $((3 + 6))")
    expect(screen(watcher)).to_contain_text("last 9")
    expect(screen(watcher)).not_to_contain_text("not 8")
    expect(watcher.get_by_role("button", name="Share")).to_have_count(0)


def test_a_terminal_works_on_a_phone_and_can_be_closed_from_the_list(open_window: OpenChat) -> None:
    page = open_terminal(open_window())
    phone = open_window(page.url, viewport=PHONE, color_scheme="dark")
    expect(phone.locator("[data-term-status]")).to_have_text("Connected")
    type_line(phone, "echo small")
    phone.get_by_role("button", name="Up").click()
    expect(screen(phone)).to_contain_text("$ echo small")
    assert faults_of(phone) == []
    listed = open_window("/settings/terminals/")
    assert faults_of(listed) == []
    address = page.url.rstrip("/").rsplit("/", 1)[1]
    row = listed.locator("tbody tr", has=listed.locator(f"a[href*='{address}']"))
    row.get_by_role("button").click()
    for one in (page, phone):
        expect(one.locator("[data-term-status]")).to_have_text("Closed")
        expect(one.locator("[data-notice]")).to_contain_text("Closed by")
    page.reload()
    expect(page.get_by_text("This terminal is closed")).to_be_visible()
    assert faults_of(page) == []
