"""Tests of signing up, in and out in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tenants.accounts import make_sign_in_link
from tenants.models import User
from tests.browser.conftest import PASSWORD, OpenContext

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_newcomer_signs_up_and_sees_the_first_steps(page: Page):
    page.goto("/")
    expect(page).to_have_url("/sign-in/?next=/")
    page.get_by_role("link", name="Create an account").click()
    page.get_by_label("Your name").fill("Ada Ash")
    page.get_by_label("E-mail").fill("ada@example.com")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()

    expect(page.get_by_role("heading", name="Set up Ada Ash's workspace")).to_be_visible()
    expect(page.locator(".todo.is-next .btn-primary")).to_have_count(1)


def test_signing_in_and_out_works_with_the_keyboard_alone(page: Page, owner: User, workspace):
    page.goto("/sign-in/")
    expect(page.get_by_label("E-mail")).to_be_focused()
    page.keyboard.type(owner.email)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_title("Home · Yard · Switchyard")

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()

    page.locator("summary", has_text="Account:").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")  # wraps around to the last item
    expect(page.get_by_role("button", name="Sign out").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url("/sign-in/")


def test_signing_in_works_while_the_password_is_shown(page: Page, owner: User, workspace):
    page.goto("/sign-in/")
    page.get_by_label("E-mail").fill(owner.email)
    secret = page.get_by_label("Password", exact=True)
    secret.fill(PASSWORD)
    page.get_by_role("button", name="Show password").click()
    expect(secret).to_have_attribute("type", "text")
    page.get_by_role("button", name="Sign in").click()

    expect(page).to_have_title("Home · Yard · Switchyard")


def test_the_owner_signs_in_by_link_and_sets_a_password(page: Page, owner: User, workspace):
    owner.set_unusable_password()
    owner.save()
    page.goto(f"/sign-in/{make_sign_in_link(owner)}/")
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Set a password")).to_be_visible()
    page.get_by_label("New password").fill("another horse 10")
    page.get_by_role("button", name="Set password").click()

    expect(page.get_by_text("Password saved")).to_be_visible()


def test_signing_in_and_out_works_without_javascript(
    open_context: OpenContext, owner: User, workspace
):
    page = open_context(java_script_enabled=False).new_page()
    page.goto("/sign-in/")
    expect(page.get_by_role("button", name="Show password")).to_be_hidden()
    page.get_by_label("E-mail").fill(owner.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_title("Home · Yard · Switchyard")
    page.locator("summary", has_text="Account:").click()
    page.get_by_role("button", name="Sign out").first.click()
    expect(page).to_have_url("/sign-in/")
