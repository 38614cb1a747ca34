"""Tests of keeping chats in order: find, pin, rename, share and archive, by mouse and by keyboard."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.looks import PHONE
from tests.browser.talking import answers, begin, rests, say
from tests.browser.whole_stack import OpenChat


def rows(page: Page):
    return page.locator(".chats li .chats-title")


def two_chats(page: Page) -> Page:
    begin(page, "say the tea is ready", "Concierge")
    rests(page)
    page.goto("/chat/")
    begin(page, "say the bread is baked", "Concierge")
    rests(page)
    return page


def test_chats_are_found_renamed_pinned_and_archived(open_window: OpenChat):
    page = two_chats(open_window())
    expect(rows(page)).to_have_text(["Say the bread is baked", "Say the tea is ready"])

    search = page.get_by_role("searchbox", name="Search chats")
    search.fill("tea")
    expect(rows(page)).to_have_text(["Say the tea is ready"])
    search.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Say the tea is ready")

    page.get_by_role("link", name="Chat options").click()
    options = page.get_by_role("dialog", name="Chat options")
    options.get_by_label("Title").fill("Tea")
    options.get_by_label("Title").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tea")

    page.get_by_role("link", name="Chat options").click()
    options.get_by_role("button", name="Pin").click()
    expect(page.locator("[data-group=Pinned] .chats-title")).to_have_text(["Tea"])

    page.get_by_role("link", name="Options for Say the bread").focus()
    page.keyboard.press("Enter")
    options.get_by_role("button", name="Archive").click()
    expect(rows(page)).to_have_text(["Tea"])


def test_a_shared_chat_is_read_without_signing_in_until_the_link_is_revoked(open_window: OpenChat):
    page = begin(open_window(), "say **the tea is ready**", "Concierge")
    rests(page)
    page.get_by_role("link", name="Chat options").click()
    page.get_by_role("button", name="Create a share link").click()
    link = page.locator("#share-link").inner_text()
    guest = open_window(link, storage_state=None)
    expect(guest.locator(".prose strong")).to_have_text("the tea is ready")
    expect(guest.get_by_role("textbox")).to_have_count(0)

    page.get_by_role("button", name="Revoke link").click()
    expect(page.get_by_role("button", name="Create a share link")).to_be_visible()
    assert guest.request.get(link).status == 404


def test_a_phone_has_the_options_of_a_chat_and_no_list_beside_it(open_window: OpenChat):
    page = begin(open_window(viewport=PHONE, has_touch=True, is_mobile=True), "say hi", "Concierge")
    rests(page)
    expect(page.get_by_role("complementary", name="Chats")).to_be_hidden()
    page.get_by_role("link", name="Chat options").tap()
    page.get_by_role("dialog", name="Chat options").get_by_role("button", name="Pin").tap()
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/$"))


def test_escape_beside_the_chat_does_not_stop_the_answer(open_window: OpenChat):
    page = begin(open_window(), "count to 400", "Concierge")
    expect(answers(page).last).to_contain_text("5 6")
    page.get_by_role("searchbox", name="Search chats").press("Escape")
    page.locator("#inspector a").first.focus()
    page.keyboard.press("Escape")
    expect(answers(page).last).to_contain_text("399 400")
    rests(page)


def test_the_demo_offers_a_model_as_a_button(open_window: OpenChat):
    page = begin(open_window(), "explain quantum physics", "Concierge")
    rests(page)
    expect(answers(page).last.locator("li")).to_have_count(3)
    answers(page).last.get_by_role("link", name="Connect a model").click()
    expect(page).to_have_url(re.compile(r"/settings/providers/$"))


def test_the_demo_repeats_what_it_was_told(open_window: OpenChat):
    page = begin(open_window(), "My name is Ann", "Concierge")
    expect(answers(page).last).to_contain_text("Saved: My name is Ann")
    rests(page)
    say(page, "What is my name?")
    expect(answers(page).last).to_contain_text("My name is Ann")
