"""Tests of the layout of all pages: keys, palette, theme, accessibility and CSP."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from orchestrator.workspaces import create_workspace
from tenants.keys import issue_key
from tenants.models import User, Workspace
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.islands import press

pytestmark = pytest.mark.django_db(transaction=True)


def test_dialogs_and_menus_are_accessible(
    open_context: OpenContext, owner: User, workspace: Workspace
):
    issue_key(workspace_id=workspace.pk, name="CI", created_by=owner)
    page = sign_in(open_context(color_scheme="dark").new_page(), owner)
    faults = []
    page.locator("summary", has_text="Workspace:").click()
    faults += faults_of(page)
    page.keyboard.press("Escape")
    for key in ("Control+k", "?"):
        page.keyboard.press(key)
        expect(page.get_by_role("dialog")).to_be_visible()
        faults += faults_of(page)
        page.keyboard.press("Escape")
    page.goto("/settings/keys/")
    page.keyboard.press("n")
    expect(page.get_by_role("dialog", name="New API key")).to_be_visible()
    faults += faults_of(page)

    assert faults == []


def test_the_palette_opens_the_named_page(owner_page: Page):
    press(owner_page, "Control+k")
    owner_page.keyboard.type("memb")
    owner_page.keyboard.press("Enter")

    expect(owner_page.get_by_role("heading", level=1)).to_have_text("Members")


def test_g_and_a_letter_open_a_page(owner_page: Page):
    press(owner_page, "g", "t")
    expect(owner_page.get_by_role("heading", level=1)).to_have_text("Workspace")
    press(owner_page, "g", "h")
    expect(owner_page.get_by_role("heading", level=1)).to_have_text("Home")


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.querySelector('.page')).backgroundColor")
    return colour


def test_the_theme_follows_the_system_until_one_is_chosen(
    open_context: OpenContext, owner: User, workspace
):
    page = sign_in(open_context(color_scheme="light").new_page(), owner)
    light = background(page)
    page.emulate_media(color_scheme="dark")
    dark = background(page)
    assert dark != light

    page.get_by_role("button", name="Toggle theme").first.click()
    assert background(page) == light
    page.goto("/settings/account/")
    assert background(page) == light
    expect(page.get_by_role("button", name="Light", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.get_by_role("button", name="System").click()
    assert background(page) == dark


def test_a_chosen_theme_is_applied_before_the_first_paint(
    open_context: OpenContext, owner: User, workspace, complaints: list[str]
):
    page = sign_in(open_context(color_scheme="light").new_page(), owner)
    page.get_by_role("button", name="Toggle theme").first.click()
    page.add_init_script(
        """addEventListener("DOMContentLoaded", () => {
            window.themeAtParsed = document.documentElement.dataset.theme;
        });"""
    )
    page.route("**/dist/assets/*.js", lambda route: route.abort())
    page.goto("/settings/account/")

    assert page.evaluate("window.themeAtParsed") == "switchyard-dark"
    complaints.clear()  # errors about the script that was aborted


def test_j_and_k_move_through_a_list_and_enter_opens_a_row(owner_page: Page):
    owner_page.goto("/agents/")
    first, second = owner_page.locator("tbody tr a.rows-title").all()[:2]

    press(owner_page, "j", "j")
    expect(second).to_be_focused()
    press(owner_page, "k")
    expect(first).to_be_focused()
    name = first.inner_text()
    press(owner_page, "Enter")
    expect(owner_page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_tab_is_blocked_when_another_one_switched_the_workspace(
    open_context: OpenContext, owner: User, workspace: Workspace
):
    other = create_workspace(name="Elsewhere", owner=owner)
    context = open_context()
    page = sign_in(context.new_page(), owner)
    page.goto("/settings/workspace/")
    page.get_by_role("textbox", name="Name").fill("Half typed")
    stopped = page.get_by_role("dialog", name="You switched workspaces")
    second = context.new_page()
    second.goto("/")
    expect(stopped).to_be_hidden()

    second.locator("summary", has_text="Workspace:").click()
    second.get_by_role("button", name=other.name).click()
    expect(second).to_have_title(re.compile(other.name))
    expect(stopped).to_contain_text(f"You switched to {other.name} in another tab")
    page.keyboard.press("Escape")
    expect(stopped).to_be_visible()
    assert faults_of(page) == []

    stopped.get_by_role("button", name=f"Continue in {workspace.name}").click()
    expect(stopped).to_be_hidden()
    expect(second.get_by_role("dialog", name="You switched workspaces")).to_be_visible()
    page.get_by_role("textbox", name="Name").press("Enter")
    expect(page.get_by_text("The workspace is renamed.")).to_be_visible()
    other.refresh_from_db()
    workspace.refresh_from_db()
    assert (other.name, workspace.name) == ("Elsewhere", "Half typed")


def test_an_inline_script_is_refused_and_reported(owner_page: Page, complaints: list[str]):
    owner_page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.broken = true";
            document.body.append(script);
        }"""
    )
    owner_page.wait_for_timeout(100)

    assert not owner_page.evaluate("window.broken === true")
    assert any("Content Security Policy" in complaint for complaint in complaints)
    complaints.clear()
