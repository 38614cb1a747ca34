"""Tests of approvals on the real stack: in the inbox and in a chat, by mouse and keyboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import faults_of
from tests.browser.islands import mounted
from tests.browser.looks import PHONE, WIDE
from tests.browser.talking import answers, approval, begin, reload_until, rests, say
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def cards(page: Page) -> Locator:
    return page.locator("[data-pending] .approval")


def resolved(page: Page) -> Locator:
    return page.locator(".inbox-past > li")


def ask(open_window: OpenChat, command: str) -> Page:
    """Open a chat whose agent waits for approval of this command."""
    page = begin(open_window(), f"run {command}")
    expect(approval(page)).to_be_visible()
    return page


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_inbox_and_the_chat_card_are_accessible(open_window: OpenChat, size, theme):
    chat = ask(open_window, f"echo {theme} {size['width']}")
    assert faults_of(chat) == []
    page = open_window("/approvals/", viewport=size, color_scheme=theme)
    expect(cards(page).first).to_be_visible()
    assert faults_of(page) == []
    cards(page).first.get_by_role("button", name="Deny").click()
    expect(resolved(page).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    resolved(page).first.locator("summary").click()
    assert faults_of(page) == []


def test_the_inbox_updates_itself_in_every_window(open_window: OpenChat):
    first, second = open_window("/approvals/"), open_window("/approvals/")
    expect(cards(first)).to_have_count(0)
    chat = ask(open_window, "echo everywhere")
    for page in (first, second):
        expect(cards(page)).to_have_count(1)
        expect(cards(page)).to_contain_text("Run a command: echo everywhere")
        expect(page).to_have_title(re.compile(r"^\(1\) Approvals"))
    for page in (first, second, chat):
        expect(page.locator("a[href='/approvals/'] .rail-count").first).to_have_text("1")
    cards(first).get_by_role("button", name="Allow once").click()
    for page in (first, second):
        expect(cards(page)).to_have_count(0)
        expect(resolved(page).first).to_contain_text("allowed this once")
        expect(page).to_have_title(re.compile(r"^Approvals"))
    for page in (first, second, chat):
        expect(page.locator("a[href='/approvals/'] .rail-count").first).to_be_hidden()
    expect(answers(chat).last).to_contain_text("everywhere")
    expect(chat.locator(".call-end").first).to_contain_text("Allowed once by")


def test_approvals_can_be_answered_with_the_keyboard(open_window: OpenChat):
    chats = [ask(open_window, f"echo number-{n}") for n in range(3)]
    page = open_window("/approvals/")
    mounted(page, "approvals")
    expect(cards(page)).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(cards(page).nth(1)).to_be_focused()
    page.keyboard.press("Control+Backspace")
    expect(cards(page)).to_have_count(2)
    expect(cards(page).nth(1)).to_be_focused()
    page.keyboard.press("k")
    for left in (1, 0):
        page.keyboard.press("Control+Enter")
        expect(cards(page)).to_have_count(left)
    expect(answers(chats[0]).last).to_contain_text("number-0")
    expect(answers(chats[2]).last).to_contain_text("number-2")
    expect(chats[1].locator(".call").first).to_have_attribute("data-state", "denied")


def test_arguments_can_be_edited_in_the_inbox_and_invalid_ones_are_refused(
    open_window: OpenChat, complaints: list[str]
):
    chat = ask(open_window, "echo dangerous")
    page = open_window("/approvals/")
    field = cards(page).get_by_role("textbox", name="Exact arguments")
    for wrong, complaint in (
        ("{", "valid JSON"),
        ('{"comand": "x"}', "Invalid arguments for exec"),
    ):
        field.fill(wrong)
        cards(page).get_by_role("button", name="Allow once").click()
        expect(cards(page).get_by_role("alert")).to_contain_text(complaint)
    complaints.clear()  # The browser logs every response with an error status.
    field.fill('{"command": "echo harmless"}')
    cards(page).get_by_role("button", name="Allow once").click()
    expect(answers(chat).last).to_contain_text("harmless")


def test_an_approval_for_the_session_covers_its_next_runs(open_window: OpenChat):
    page = ask(open_window, "echo again")
    expect(approval(page)).to_contain_text("exactly this command")
    approval(page).get_by_role("button", name="For this session").click()
    rests(page)
    expect(page.locator(".call-end").first).to_contain_text("Allowed for this session by")
    say(page, "run echo again")
    expect(page.locator(".call[data-state=completed]")).to_have_count(2)
    rests(page)
    say(page, "run echo other")
    expect(approval(page)).to_be_visible()
    approval(page).get_by_role("textbox", name="Reason for denying").fill("enough")
    approval(page).get_by_role("button", name="Deny").click()
    expect(page.locator(".call-end").last).to_contain_text("Denied by")
    expect(page.locator(".call-end").last).to_contain_text("enough")


def test_unsent_text_survives_an_update_of_the_list(open_window: OpenChat):
    ask(open_window, "echo one")
    page = open_window("/approvals/")
    note = cards(page).first.get_by_role("textbox", name="Reason for denying")
    note.fill("I am thinking")
    ask(open_window, "echo two")
    expect(cards(page)).to_have_count(2)
    expect(note).to_have_value("I am thinking")
    for left in (1, 0):
        cards(page).first.get_by_role("button", name="Deny").click()
        expect(cards(page)).to_have_count(left)


def test_the_inbox_works_without_javascript(open_window: OpenChat):
    chat = ask(open_window, "echo plain")
    page = open_window("/approvals/", java_script_enabled=False)
    reload_until(page, cards(page))
    cards(page).get_by_role("button", name="Allow once").click()
    expect(page.get_by_role("heading", name="No approvals waiting")).to_be_visible()
    expect(resolved(page).first).to_contain_text("allowed this once")
    expect(answers(chat).last).to_contain_text("plain")


def test_always_allowing_a_call_covers_new_chats(open_window: OpenChat):
    page = ask(open_window, "echo always")
    approval(page).get_by_role("button", name="Always").click()
    expect(answers(page).last).to_contain_text("always")
    other = begin(open_window(), "run echo always")
    expect(other.locator(".call")).to_have_attribute("data-state", "completed")


FORM = json.dumps(
    {
        "question": "What shall leave the yard?",
        "fields": [
            {"name": "why", "label": "Why"},
            {"name": "track", "label": "Which track", "kind": "choice", "options": ["One", "Two"]},
            {"name": "crews", "label": "Which crews", "kind": "several", "options": ["A", "B"]},
            {"name": "wagons", "label": "How many wagons", "kind": "number"},
            {"name": "day", "label": "When", "kind": "date"},
            {"name": "plan", "label": "The plan", "kind": "file", "required": False},
        ],
    }
)


def question(page: Page) -> Locator:
    return page.get_by_role("region", name="What shall leave the yard?")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_question_is_a_form_that_is_answered_with_the_keyboard(
    open_window: OpenChat, tmp_path: Path, size, theme
):
    page = open_window("/chat/", viewport=size, color_scheme=theme)
    begin(page, f"use the tool ask_user with {FORM}")
    card = question(page)
    expect(card.get_by_role("heading", name="What shall leave the yard?")).to_be_visible()
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]

    plan = tmp_path / "plan.txt"
    plan.write_text("Track two.")
    card.get_by_label("The plan").set_input_files(plan)
    card.get_by_label("Why").focus()
    page.keyboard.type("Freight.")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(card.get_by_role("radio", name="Two")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("7")
    card.get_by_label("When").fill("2026-12-01")
    page.keyboard.press("Control+Enter")

    call = page.locator(".call").last
    expect(call).to_have_attribute("data-state", "completed")
    call.locator("summary").click()
    for told in ("Freight.", '"Two"', '"A"', "7", "2026-12-01", "uploads/plan.txt"):
        expect(call).to_contain_text(told)


def test_a_question_in_the_inbox_says_what_is_missing_and_can_be_declined(open_window: OpenChat):
    chat = begin(open_window(), f"use the tool ask_user with {FORM}")
    expect(question(chat)).to_be_visible()
    page = open_window("/approvals/")
    expect(cards(page)).to_contain_text("What shall leave the yard?")
    assert faults_of(page) == []
    cards(page).get_by_role("button", name="Answer").click()
    expect(cards(page)).to_have_count(1)  # The browser asks for what is required.
    cards(page).get_by_label("Reason for not answering").fill("Ask Ann.")
    cards(page).get_by_role("button", name="Decline").click()
    expect(resolved(page).first).to_contain_text("declined to answer")
    expect(chat.locator(".call").first).to_have_attribute("data-state", "denied")
