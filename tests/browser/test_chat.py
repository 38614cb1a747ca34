"""The chat on the real stack: web, workers, supervisor, PostgreSQL and a real Chromium."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.axe import faults_of
from tests.browser.islands import mounted, press
from tests.browser.looks import PHONE, WIDE
from tests.browser.talking import (
    MARKDOWN,
    answers,
    approval,
    begin,
    bubbles,
    counted,
    import_lines,
    reload_until,
    rests,
    say,
    waiting,
)
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_words_arrive_while_they_are_said_and_no_live_region_repeats_them(open_window: OpenChat):
    page = begin(open_window(), "count to 300")
    expect(page.locator("[data-lines]")).to_have_attribute("aria-busy", "true")
    expect(page.locator("[data-announce]")).to_have_text("Answering")
    expect(answers(page)).to_contain_text("20 21")
    assert page.locator("[aria-live] .prose, [role=status] .prose, [role=log]").count() == 0
    expect(answers(page)).to_have_text(counted(300))
    expect(page.locator("[data-lines]")).to_have_attribute("aria-busy", "false")
    expect(page.locator("[data-announce]")).to_have_text("Answer finished")


def test_the_whole_way_by_keyboard(open_window: OpenChat):
    page = open_window("/")
    press(page, "g", "c")
    expect(page.get_by_role("heading", level=1)).to_have_text("Chat")
    mounted(page, "chat")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    press(page, "Escape", "/")
    page.keyboard.type("run echo hi\n")
    expect(approval(page)).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(answers(page).last).to_contain_text("hi")
    rests(page)
    press(page, "Escape", "g", "s")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    mounted(page, "browse")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="run echo hi")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-pane] h2")).to_have_text("Run echo hi")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Run echo hi")


def test_escape_stops_an_answer_and_keeps_what_was_said(open_window: OpenChat):
    page = begin(open_window(), "count to 2000")
    expect(answers(page)).to_contain_text("15 16")
    page.keyboard.press("Escape")
    expect(page.locator(".is-note")).to_contain_text("Stopped")
    rests(page)
    said = answers(page).inner_text().split()
    assert said == counted(len(said)).split()
    assert 16 <= len(said) < 2000
    say(page, "count to 3")
    expect(answers(page).last).to_have_text("1 2 3")


def test_a_reload_in_mid_answer_shows_all_of_it_once(open_window: OpenChat):
    page = begin(open_window(), "count to 250")
    for word in ("30 31", "90 91"):
        expect(answers(page)).to_contain_text(word)
        page.reload()
        expect(answers(page)).to_contain_text(word)
    expect(answers(page)).to_have_text([counted(250)])
    rests(page)
    expect(bubbles(page)).to_have_count(1)
    page.reload()
    expect(answers(page)).to_have_text([counted(250)])


def test_two_windows_see_the_same(open_window: OpenChat):
    first = begin(open_window(), "count to 150")
    second = open_window(first.url)
    expect(answers(second)).to_contain_text("40 41")
    say(second, "count to 4")
    for page in (first, second):
        expect(answers(page)).to_have_text([counted(150), "1 2 3 4"])
        expect(bubbles(page)).to_have_text(["count to 150", "count to 4"])


def test_a_connection_cut_again_and_again_ends_with_the_same_text(open_window: OpenChat):
    page = open_window()
    sockets: list[object] = []
    page.on("websocket", lambda socket: sockets.append(socket))
    begin(page, "count to 400")
    expect(answers(page)).to_contain_text("10 11")
    for _ in range(6):
        page.context.set_offline(True)
        page.wait_for_timeout(150)
        page.context.set_offline(False)
        page.wait_for_timeout(350)
    expect(answers(page)).to_have_text([counted(400)])
    rests(page)
    assert len(sockets) > 6


def test_what_is_sent_without_a_connection_arrives_once(open_window: OpenChat):
    page = begin(open_window(), "count to 2")
    expect(answers(page)).to_have_text("1 2")
    rests(page)
    page.context.set_offline(True)
    say(page, "count to 3")
    expect(page.locator(".line[data-receipt=sending]")).to_contain_text("Sending…")
    page.context.set_offline(False)
    expect(answers(page)).to_have_text(["1 2", "1 2 3"])
    expect(bubbles(page)).to_have_text(["count to 2", "count to 3"])


def test_a_command_runs_when_it_is_allowed(open_window: OpenChat):
    page = begin(open_window(), "run echo hello")
    card = approval(page)
    expect(card).to_contain_text("may change the session's files")
    arguments = card.get_by_role("textbox", name="Exact arguments")
    expect(arguments).to_have_value(re.compile('"command": "echo hello"'))
    arguments.fill("{")
    page.keyboard.press("Control+Enter")
    expect(card.get_by_role("alert")).to_contain_text("valid JSON")
    arguments.fill(json.dumps({"command": "echo good-bye"}))
    page.keyboard.press("Control+Enter")
    expect(card).to_have_count(0)
    expect(answers(page).last).to_contain_text("good-bye")
    expect(page.locator(".call")).to_have_attribute("data-state", "completed")
    page.locator(".call summary").click()
    expect(page.locator(".call-rule")).to_contain_text("Allowed once")


def test_a_command_that_is_denied_does_not_run_and_the_agent_hears_why(open_window: OpenChat):
    page = begin(open_window(), "run echo hello")
    card = approval(page)
    expect(page.locator("[data-announce]")).to_have_text("A tool call needs your approval")
    page.reload()
    card.get_by_label("Reason for denying").fill("not on a Monday")
    card.get_by_role("button", name="Deny").click()
    expect(page.locator(".call-end")).to_contain_text("Denied")
    expect(answers(page).last).to_contain_text("not on a Monday")
    rests(page)
    say(page, "run echo again")
    expect(card).to_be_visible()
    page.keyboard.press("Control+Backspace")
    expect(page.locator(".call").last).to_have_attribute("data-state", "denied")


def test_waiting_messages_are_edited_taken_back_and_answered_in_turn(open_window: OpenChat):
    page = begin(open_window(), "count to 2000")
    expect(answers(page)).to_contain_text("5 6")
    for text in ("say two", "say three", "say four"):
        say(page, text)
    expect(waiting(page)).to_have_count(3)
    expect(bubbles(page)).to_have_count(1)
    waiting(page).nth(1).get_by_role("button", name="Remove").click()
    expect(waiting(page)).to_have_count(2)
    waiting(page).first.get_by_role("button", name="Edit").click()
    page.get_by_role("textbox", name="Queued message").fill("say deux")
    page.keyboard.press("Enter")
    expect(waiting(page).first).to_contain_text("say deux")
    page.keyboard.press("Escape")
    expect(answers(page)).to_have_text([re.compile("^1 2 3"), "deux", "four"])
    expect(bubbles(page)).to_have_text(["count to 2000", "say deux", "say four"])
    expect(waiting(page)).to_have_count(0)
    page.reload()
    expect(bubbles(page)).to_have_text(["count to 2000", "say deux", "say four"])


def test_a_message_may_join_the_answer_or_end_it(open_window: OpenChat):
    page = begin(open_window(), "wait for 2 seconds")
    expect(page.locator(".call")).to_have_attribute("data-state", "running")
    say(page, "say joined", "steer")
    expect(bubbles(page)).to_have_text(["wait for 2 seconds", "say joined"])
    expect(waiting(page)).to_have_count(0)
    expect(answers(page).last).to_contain_text("joined")
    rests(page)

    say(page, "count to 2000")
    expect(answers(page).last).to_contain_text("5 6")
    say(page, "say instead", "interrupt")
    expect(answers(page).last).to_have_text("instead")
    expect(page.locator(".is-note")).to_contain_text("Stopped")


def test_a_draft_is_kept_and_an_error_can_be_tried_again(open_window: OpenChat):
    page = begin(open_window(), "fail with overload")
    trouble = page.locator(".line.is-error")
    # The call is tried again for some seconds first.
    expect(trouble).to_contain_text("asked to be overloaded", timeout=60_000)
    page.get_by_role("textbox", name="Message Coder").fill("half a thou")
    page.reload()
    expect(page.get_by_role("textbox", name="Message Coder")).to_have_value("half a thou")
    trouble.get_by_role("button", name="Retry").click()
    expect(trouble).to_have_count(2, timeout=60_000)
    expect(trouble.first.get_by_role("button")).to_have_count(0)


def test_markdown_is_shown_and_nothing_in_it_acts(open_window: OpenChat):
    page = open_window()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    begin(page, "count to 1")
    rests(page)
    say(page, MARKDOWN)
    said = answers(page).last
    expect(said.locator("td.is-right")).to_have_text("2")
    rests(page)
    expect(said.get_by_role("heading", name="Report")).to_be_visible()
    expect(said.locator("img")).to_have_count(0)
    expect(said.get_by_role("link", name="a link")).to_have_attribute("rel", re.compile("noopener"))
    said.get_by_role("button", name="Copy").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == 'print("<b>")\n'
    assert page.evaluate("window.broken") is None
    assert not [url for url in asked if "evil.example" in url]


def test_a_long_session_opens_at_its_end_and_shows_more_when_asked(open_window: OpenChat):
    page = open_window()
    page.goto(f"/chat/{import_lines(page, 450)}/")
    expect(answers(page)).to_have_count(200)
    expect(answers(page).last).to_be_in_viewport()
    page.get_by_role("link", name="Show earlier").click()
    expect(answers(page)).to_have_count(400)
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    page.get_by_role("link", name="Show earlier").click()
    expect(answers(page)).to_have_count(450)
    expect(answers(page).first).to_have_text("Line number 1.")
    expect(page.get_by_role("link", name="Show earlier")).to_have_count(0)
    page.get_by_role("button", name="Latest").click()
    expect(answers(page).last).to_be_in_viewport()


def test_without_a_script_one_talks_by_forms(open_window: OpenChat):
    page = open_window(java_script_enabled=False)
    page.get_by_role("textbox", name="Message").fill("run echo hello")
    page.locator("label", has_text="Coder").click()
    page.get_by_role("button", name="Send").click()
    expect(bubbles(page)).to_have_text("run echo hello")
    reload_until(page, page.get_by_role("button", name="Allow once"))
    page.get_by_role("button", name="Allow once").click()
    reload_until(page, page.get_by_text("exit code 0").first)
    expect(answers(page).last).to_contain_text("hello")


@pytest.mark.parametrize(
    ("size", "theme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide-light", "phone-dark"]
)
def test_axe_finds_no_serious_fault(open_window: OpenChat, size, theme):
    page = open_window(viewport=size, color_scheme=theme)
    faults = faults_of(page)
    begin(page, "list the files and then list the files in . and then list the files in ./")
    rests(page)
    say(page, MARKDOWN)
    expect(answers(page).last.locator("td").last).to_be_visible()
    rests(page)
    page.locator(".call summary").first.click()
    say(page, "run echo hello")
    expect(approval(page)).to_be_visible()
    say(page, "say later")
    expect(waiting(page)).to_have_count(1)
    faults += faults_of(page)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    expect(page.get_by_role("button", name="Inspector")).to_be_in_viewport(ratio=1)
    for path in ("/sessions/", "/sessions/?q=nothing-like-this", "/settings/providers/"):
        page.goto(path)
        faults += faults_of(page)
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]

    assert faults == []
