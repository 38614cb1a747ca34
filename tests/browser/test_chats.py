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


def test_an_edited_message_begins_a_version_of_the_chat_and_arrows_lead_back(
    open_window: OpenChat,
):
    page = begin(open_window(), "say one", "Concierge")
    rests(page)
    page.get_by_role("button", name="Edit and send again").click()
    page.get_by_role("textbox", name="Your message").fill("say two")
    page.keyboard.press("Enter")
    expect(answers(page).last).to_have_text("two")
    expect(page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(rows(page)).to_have_text(["Say one"])

    page.get_by_role("button", name="Previous version").click()
    expect(answers(page).last).to_have_text("one")
    expect(page.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    expect(page.locator(".chats [aria-current]")).to_have_text("Say one")

    page.get_by_role("button", name="Regenerate").click()
    expect(page.get_by_role("group", name="Version 3 of 3")).to_be_visible()
    expect(rows(page)).to_have_text(["Say one"])


def test_chats_go_into_folders_and_are_deleted_together(open_window: OpenChat):
    page = two_chats(open_window())
    page.get_by_role("button", name="Select chats").click()
    page.get_by_role("checkbox", name="Select Say the tea is ready").check()
    bulk = page.get_by_role("form", name="Selected chats")
    bulk.get_by_label("Folder").fill("Kitchen")
    bulk.get_by_role("button", name="Move").click()
    folder = page.locator("[data-folder]", has_text="Kitchen")
    folder.locator("summary").click()
    expect(folder.locator(".chats-title")).to_have_text(["Say the tea is ready"])

    page.get_by_role("button", name="Select chats").click()
    for name in ("tea", "bread"):
        page.get_by_role("checkbox", name=f"Select Say the {name}").check()
    bulk.get_by_text("Delete", exact=True).click()
    bulk.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("2 chats deleted.")).to_be_visible()
    expect(rows(page)).to_have_count(0)


def test_an_answer_is_rated_with_a_reason_that_admins_read(open_window: OpenChat):
    page = begin(open_window(), "say one", "Concierge")
    rests(page)
    page.get_by_role("button", name="Bad answer").click()
    page.get_by_role("textbox", name="What was wrong?").fill("Too short")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="What was wrong?")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    page.goto("/settings/feedback/?rating=bad")
    expect(page.get_by_text("Too short")).to_be_visible()


def test_a_chat_is_given_another_model(open_window: OpenChat):
    page = begin(open_window(), "say one", "Concierge")
    rests(page)
    page.get_by_role("link", name="demo").click()
    picker = page.get_by_role("dialog", name="Model")
    picker.get_by_role("searchbox", name="Search models").fill("nothing like this")
    expect(picker.get_by_text("No models match.")).to_be_visible()
    picker.get_by_role("searchbox", name="Search models").fill("demo")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(picker).to_have_count(0)


def test_a_shared_chat_is_read_without_signing_in_until_the_link_is_revoked(open_window: OpenChat):
    page = begin(open_window(), "say **the tea is ready**", "Concierge")
    rests(page)
    page.get_by_role("link", name="Chat options").click()
    page.get_by_role("button", name="Create a share link").click()
    link = page.locator("#share-link").inner_text()
    guest = open_window(link, storage_state=None)
    expect(guest.locator(".is-agent .prose strong")).to_have_text("the tea is ready")
    expect(guest.get_by_role("textbox")).to_have_count(0)

    page.get_by_role("button", name="Revoke link").click()
    expect(page.get_by_role("button", name="Create a share link")).to_be_visible()
    assert guest.request.get(link).status == 404


def test_a_phone_has_the_options_of_a_chat_and_no_list_beside_it(open_window: OpenChat):
    page = begin(open_window(viewport=PHONE, has_touch=True, is_mobile=True), "say hi", "Concierge")
    rests(page)
    expect(page.get_by_role("complementary", name="Chats")).to_be_hidden()
    page.get_by_role("button", name="Chats").tap()
    page.get_by_role("searchbox", name="Search chats").fill("hi")
    expect(rows(page)).to_have_text(["Say hi"])
    page.get_by_role("searchbox", name="Search chats").press("Escape")
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
