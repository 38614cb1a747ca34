"""Tests of the builder on the real stack: an agent is built in a chat, edited and published."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_of
from tests.browser.looks import PHONE
from tests.browser.talking import answers, begin, rests
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

REQUEST = "Make an agent that answers billing questions"


def build(page: Page, request: str = REQUEST) -> Page:
    page.get_by_label("Describe the agent").fill(request)
    page.get_by_role("button", name="Build agent").click()
    expect(page).to_have_url(re.compile(r"/agents/[0-9a-f-]{36}/build/"))
    return page


def tell(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Message Builder").fill(text)
    page.locator(".build-chat [data-send]").click()


def changes(page: Page):
    return page.locator(".build-changes li")


def test_the_builder_creates_an_agent_that_works_once_published(open_window: OpenChat):
    page = build(open_window("/agents/new/"))
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_value("Billing helper")
    expect(page.get_by_role("heading", level=1)).to_have_text("Billing helper")
    expect(changes(page)).to_have_count(3)
    assert faults_of(page) == []

    tell(page, "Call it Bill")
    expect(name).to_have_value("Bill")
    page.get_by_role("button", name="Undo: Name").first.click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Billing helper")

    tell(page, "Let it read files but ask before running commands")
    page.get_by_role("link", name="Policy", exact=True).click()
    expect(page.locator(".build-policy")).to_contain_text("+ ask exec")
    assert faults_of(page) == []
    tell(page, "Add a step that checks the invoice")
    page.get_by_role("link", name="Canvas").click()
    expect(page.locator(".react-flow")).to_contain_text("Checks the invoice")
    assert faults_of(page) == []

    tell(page, "Publish it")
    asked = page.get_by_role("region", name="Publish the agent?")
    asked.get_by_role("button", name="Allow").first.click()
    expect(page.locator(".build-standing")).to_contain_text("v1")
    expect(page.get_by_role("button", name="Publish v1")).to_have_count(0)
    page.goto("/chat/")
    begin(page, "say I am at work.", agent="Billing helper")
    expect(answers(page).last).to_have_text("I am at work.")
    rests(page)


def test_unsaved_input_is_kept_while_the_builder_changes_other_fields(open_window: OpenChat):
    page = build(open_window("/agents/new/"))
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_value("Billing helper")
    page.get_by_label("Description", exact=True).fill("Mine.")
    expect(page.get_by_text("Unsaved changes")).to_be_visible()
    tell(page, "Call it Bill")
    expect(name).to_have_value("Bill")
    expect(page.get_by_label("Description", exact=True)).to_have_value("Mine.")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator(".build-words").first).to_contain_text("Mine.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Bill")


def test_the_preview_runs_the_draft(open_window: OpenChat):
    page = build(open_window("/agents/new/"))
    expect(changes(page)).to_have_count(3)
    page.get_by_role("link", name="Preview").click()
    page.get_by_role("textbox", name="Message Billing helper").fill("say Hello from the draft.")
    page.locator(".build-preview [data-send]").click()
    shown = page.locator(".build-preview .line.is-agent")
    expect(shown).to_contain_text("Hello from the draft.")
    expect(page.locator(".build-chat .line.is-agent").last).not_to_contain_text("Hello")
    assert faults_of(page) == []


def test_two_tabs_see_the_same_draft(open_window: OpenChat):
    first = build(open_window("/agents/new/"))
    expect(changes(first)).to_have_count(3)
    second = open_window(first.url)
    second.get_by_label("Name", exact=True).fill("From the other tab")
    second.get_by_role("button", name="Save draft").click()
    expect(first.get_by_label("Name", exact=True)).to_have_value("From the other tab")
    expect(changes(first)).to_have_count(4)


def test_the_builder_works_on_a_phone_in_the_dark_theme(open_window: OpenChat):
    page = open_window("/agents/new/", viewport=PHONE, color_scheme="dark", has_touch=True)
    assert faults_of(page) == []
    build(page)
    expect(page.locator(".build-chat .line.is-agent").last).to_contain_text("Billing helper")
    assert faults_of(page) == []
    page.get_by_role("link", name="Configure").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Billing helper")
    expect(page.locator(".build-chat")).to_be_hidden()
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.goto("/agents/")
    assert faults_of(page) == []


def test_the_builder_works_without_javascript(open_window: OpenChat):
    page = open_window("/agents/new/", java_script_enabled=False)
    page.get_by_role("button", name="Start from scratch").click()
    page.get_by_label("Name", exact=True).fill("By hand")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator(".build-changes")).to_contain_text("By hand")
    page.get_by_role("button", name="Publish v1").click()
    expect(page.get_by_text("Published By hand v1.")).to_be_visible()
