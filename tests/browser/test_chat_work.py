"""What one does with a conversation: sub-agents, copies, files, the queue, the meter, long pasts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.axe import faults_of
from tests.browser.looks import PHONE
from tests.browser.talking import (
    answers,
    approval,
    begin,
    bubbles,
    hire_boss,
    import_lines,
    rests,
    say,
    waiting,
)
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

NOTES: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"}
MORE: FilePayload = {**NOTES, "name": "more.txt"}


def in_another_chat(page: Page, before: str) -> None:
    expect(page).not_to_have_url(before)
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/"))


def test_a_sub_agent_is_a_card_and_what_it_asks_is_answered_at_its_parent(open_window: OpenChat):
    page = open_window()
    begin(hire_boss(page), "ask a sub-agent to run echo from-below", "Boss")
    card = page.locator(".child")
    expect(card).to_contain_text("At work")
    expect(approval(page)).to_contain_text("run echo from-below")
    expect(page.locator("[data-chat-status]")).to_have_text("Needs you")
    expect(card.get_by_role("link", name="Needs approval")).to_be_visible()
    card.get_by_role("button", name="Preview").click()
    beside = page.locator(".beside")
    expect(beside.locator(".bubble")).to_contain_text("run echo from-below")
    faults = faults_of(page)
    approval(page).get_by_role("button", name="Allow once").click()
    expect(beside.locator(".call")).to_have_attribute("data-state", "completed")
    expect(card).to_contain_text("Done")
    rests(page)
    card.get_by_text("Result").click()
    expect(card.locator(".prose")).to_contain_text("from-below")
    page.reload()
    expect(page.locator(".child")).to_contain_text("tokens")
    expect(page.locator(".call")).to_have_count(0)
    page.locator(".child").get_by_role("link", name="Open chat").click()
    expect(bubbles(page).first).to_contain_text("run echo from-below")
    assert faults == []


def test_a_message_is_reworded_and_an_answer_repeated_in_a_copy(open_window: OpenChat):
    page = begin(open_window(), "say one")
    rests(page)
    say(page, "say two")
    expect(answers(page)).to_have_text(["one", "two"])
    rests(page)
    first = page.url
    page.get_by_role("textbox", name="Message Coder").press("ArrowUp")
    area = page.get_by_role("textbox", name="Your message")
    expect(area).to_have_value("say two")
    area.fill("say deux")
    area.press("Enter")
    in_another_chat(page, first)
    expect(answers(page)).to_have_text(["one", "deux"])
    rests(page)
    second = page.url
    answers(page).last.hover()
    page.get_by_role("button", name="Regenerate").last.click()
    in_another_chat(page, second)
    expect(answers(page)).to_have_text(["one", "deux"])
    rests(page)
    third = page.url
    answers(page).first.hover()
    page.locator(".is-agent").first.get_by_role("button", name="Continue from here").click()
    in_another_chat(page, third)
    expect(answers(page)).to_have_text(["one"])
    rests(page)
    page.goto(first)
    expect(answers(page)).to_have_text(["one", "two"])


def test_files_go_with_a_message_from_the_first_one_on(open_window: OpenChat):
    page = open_window()
    page.locator(".card-name", has_text="Coder").click()
    page.locator("[data-picker]").set_input_files([NOTES])
    expect(page.locator(".file-chip")).to_contain_text("notes.txt")
    page.get_by_role("textbox", name="Message").fill("list the files in uploads")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/"))
    chip = page.locator(".line .file-chip")
    expect(chip).to_contain_text("notes.txt")
    rests(page)
    with page.expect_download() as download:
        chip.click()
    assert download.value.path().read_bytes() == NOTES["buffer"]

    page.locator("[data-picker]").set_input_files([NOTES, MORE])
    expect(page.locator(".composer .file-chip")).to_have_count(2)
    page.get_by_role("button", name="Remove more.txt").click()
    expect(page.locator(".composer progress:visible")).to_have_count(1)  # the meter's
    say(page, "say thanks")
    expect(page.locator(".composer .file-chip")).to_have_count(0)
    expect(answers(page).last).to_contain_text("thanks")
    rests(page)
    page.reload()
    expect(page.locator(".line .file-chip")).to_have_count(2)


def test_the_queue_is_put_in_another_order_and_one_of_it_ends_the_answer(open_window: OpenChat):
    page = begin(open_window(), "count to 3000")
    expect(answers(page)).to_contain_text("5 6")
    for text in ("say two", "say three"):
        say(page, text)
    expect(waiting(page)).to_have_count(2)
    waiting(page).nth(1).get_by_role("button", name=re.compile("^Drag to reorder")).press("ArrowUp")
    expect(waiting(page).first).to_contain_text("say three")
    waiting(page).nth(1).get_by_role("button", name="Stop the answer and send now").click()
    expect(answers(page).last).to_have_text("three")
    expect(answers(page)).to_have_count(3)
    rests(page)


def test_steps_fold_and_the_meter_opens_the_context(open_window: OpenChat):
    page = begin(
        open_window(viewport=PHONE, color_scheme="dark"),
        "in parallel: list the files; list the files in .; list the files in ./",
    )
    rests(page)
    steps = page.locator(".call-row")
    expect(steps.locator("summary").first).to_contain_text("3 steps")
    steps.locator("summary").first.click()
    expect(steps.locator(".call")).to_have_count(3)
    meter = page.locator("[data-meter]")
    expect(meter).to_contain_text("% of context")
    faults = faults_of(page)
    meter.click()
    expect(page.get_by_role("heading", name="Context")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert faults == []


def test_ten_thousand_events_open_at_their_end(open_window: OpenChat):
    page = open_window()
    page.goto(f"/chat/{import_lines(page, 10_000)}/")
    expect(answers(page)).to_have_count(200)
    expect(answers(page).last).to_have_text("Line number 10000.")
    expect(answers(page).last).to_be_in_viewport()
    say(page, "say still quick")
    expect(answers(page).last).to_have_text("still quick")
    page.get_by_role("link", name="Show earlier").click()
    expect(answers(page).first).to_have_text(re.compile("Line number 9[0-9]{3}."))
    page.get_by_role("button", name="Latest").click()
    expect(answers(page).last).to_be_in_viewport()
