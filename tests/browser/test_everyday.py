"""Tests of everyday tasks on the real stack: a first answer, a policy, two editors, a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_of
from tests.browser.looks import PHONE
from tests.browser.talking import answers, approval, begin, bubbles, rests, say
from tests.browser.whole_stack import OpenChat
from tests.stack.running import Running

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

TEXT = "# Kettle\n\nThe kettle is red.\n\nIt stands in the kitchen.\n"


def test_from_the_first_visit_to_the_first_streamed_answer(open_window: OpenChat, stack: Running):
    page = open_window(stack.manage("sign_in_link").stdout.strip(), storage_state=None)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Skip for now").click()
    page.get_by_role("link", name="Open chat").click()
    page.get_by_role("button", name="List the files", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("List the files")
    expect(bubbles(page)).to_have_text("List the files")
    call = page.locator(".call")
    expect(call).to_contain_text("List a folder")
    expect(call).to_have_attribute("data-state", "completed")
    expect(answers(page).last).to_contain_text("There are no files yet.")
    rests(page)
    call.locator("summary").click()
    expect(call.get_by_role("region", name="Arguments")).to_contain_text('"path": "."')
    expect(call.get_by_role("region", name="Result")).to_contain_text(". is empty.")


def decide(page: Page, tool: str, decision: str) -> None:
    """Change the decision for one of Coder's tools and save it."""
    page.goto("/policies/")
    page.locator(".target-menu summary").click()
    page.locator(".target-list").get_by_role("link", name="Coder").click()
    expect(page.locator(".target-menu summary")).to_contain_text("Coder")
    page.locator(f"[data-tool={tool}]").get_by_role("radio", name=decision).check()
    page.get_by_role("button", name="Review changes").click()
    page.locator(".review").get_by_role("button", name="Save").click()
    expect(page.get_by_text("It applies from the next run.")).to_be_visible()


def test_a_changed_policy_applies_to_the_next_run_of_an_open_chat(open_window: OpenChat):
    chat = begin(open_window(), "list the files")
    rests(chat)
    expect(chat.locator(".call")).to_have_attribute("data-state", "completed")
    editor = open_window("/policies/")

    decide(editor, "list_directory", "Deny")
    say(chat, "list the files")
    expect(answers(chat).last).to_contain_text("may not use the tool list_directory")
    rests(chat)
    expect(chat.locator(".call")).to_have_count(1)

    decide(editor, "list_directory", "Ask")
    say(chat, "list the files")
    asked = chat.get_by_role("region", name="List a folder?")
    asked.get_by_role("button", name="Allow once").click()
    expect(chat.locator(".call[data-state=completed]")).to_have_count(2)
    rests(chat)


def text_of(page: Page):
    return page.get_by_label("Text", exact=True)


def test_two_people_edit_one_document_and_both_changes_are_kept(
    open_window: OpenChat, complaints: list[str]
):
    first = open_window("/memory/new/")
    first.get_by_label("Path").fill("kettle.md")
    text_of(first).fill(TEXT)
    first.get_by_role("button", name="Create").click()
    expect(first).to_have_url(re.compile(r"/memory/[0-9a-f-]{36}/"))
    second = open_window(first.url)

    text_of(first).fill(TEXT.replace("red", "blue"))
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_text(re.compile("Saved"))).to_be_visible()
    text_of(second).fill(TEXT.replace("kitchen", "hall"))
    second.get_by_role("button", name="Save").click()

    expect(second.get_by_text("was changed while you edited it")).to_be_visible()
    expect(second.get_by_role("region", name="My changes")).to_contain_text("hall")
    expect(second.get_by_role("region", name="Their changes")).to_contain_text("blue")
    both = TEXT.replace("red", "blue").replace("kitchen", "hall")
    expect(second.get_by_label("Merged")).to_have_value(both)
    assert faults_of(second) == []
    complaints.clear()  # The browser logs every response with an error status.
    first.reload()
    expect(text_of(first)).to_have_value(TEXT.replace("red", "blue"))
    second.get_by_role("button", name="Save merged").click()
    expect(second.get_by_text("Saved.")).to_be_visible()
    first.reload()
    expect(text_of(first)).to_have_value(both)


def assert_fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], page.url


def test_chatting_and_browsing_sessions_works_on_a_phone(open_window: OpenChat):
    page = open_window("/", viewport=PHONE, has_touch=True, is_mobile=True)
    bar = page.get_by_role("navigation", name="Main (mobile)")
    assert_fits(page)
    bar.get_by_role("link", name="Chat").tap()
    page.locator(".card-name", has_text="Coder").tap()
    page.get_by_role("textbox", name="Message").fill("run echo from my pocket")
    assert_fits(page)
    page.get_by_role("button", name="Send", exact=True).tap()
    expect(approval(page)).to_be_visible()
    assert_fits(page)
    approval(page).get_by_role("button", name="Allow once").tap()
    expect(answers(page).last).to_contain_text("from my pocket")
    expect(answers(page).last).to_be_in_viewport()
    rests(page)
    assert_fits(page)
    bar.get_by_role("link", name="Sessions").tap()
    page.get_by_role("link", name="run echo from my pocket").first.tap()
    # There is no room beside the list, so a row opens its page.
    expect(page).to_have_url(re.compile(r"/sessions/[0-9a-f-]{36}/$"))
    assert_fits(page)
