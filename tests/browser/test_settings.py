"""Tests of keys, members and workspaces in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tenants.keys import find_key
from tenants.models import Membership, User
from tests.browser.conftest import PASSWORD, OpenContext, sign_in
from tests.browser.looks import PHONE

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_key_can_be_created_copied_and_revoked(owner_page: Page):
    page = owner_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/settings/keys/")
    page.get_by_role("link", name="New key").click()
    box = page.get_by_role("dialog", name="New API key")
    box.get_by_label("Name").fill("CI")
    box.get_by_text("Read agents, sessions and memory.").click()
    box.get_by_role("button", name="Create key").click()

    secret = page.locator("#secret").inner_text()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    key = find_key(secret)
    assert key is not None
    assert key.scope == "read"

    page.get_by_role("link", name="Done").click()
    row = page.get_by_role("row", name="CI")
    assert secret not in page.content()
    row.locator("summary").click()
    row.get_by_role("button", name="Revoke key").click()
    expect(page.get_by_role("row", name="CI").get_by_text("Revoked")).to_be_visible()
    assert find_key(secret) is None


def test_reloading_the_page_with_the_secret_creates_no_second_key(owner_page: Page):
    page = owner_page
    page.goto("/settings/keys/new/")
    page.get_by_label("Name").fill("CI")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_be_visible()
    page.reload()

    expect(page.get_by_text("This key already exists")).to_be_visible()
    expect(page.get_by_role("row", name="CI")).to_have_count(1)


def test_an_invitation_can_be_accepted_in_another_browser(
    owner_page: Page, open_context: OpenContext, workspace
):
    owner_page.goto("/settings/members/")
    owner_page.get_by_label("E-mail").fill("nia@example.com")
    owner_page.get_by_label("Role", exact=True).select_option("viewer")
    owner_page.get_by_role("button", name="Invite", exact=True).click()
    link = owner_page.locator("#invitation-link").inner_text()

    guest = open_context(viewport=PHONE).new_page()
    guest.goto(link)
    expect(guest.get_by_role("heading", name="Join Yard")).to_be_visible()
    expect(guest.get_by_label("E-mail")).to_have_value("nia@example.com")
    guest.get_by_label("Your name").fill("Nia New")
    guest.get_by_label("Password", exact=True).fill(PASSWORD)
    guest.get_by_role("button", name="Create account and join").click()
    expect(guest).to_have_title("Home · Yard · Switchyard")

    owner_page.goto("/settings/members/")
    row = owner_page.get_by_role("row", name="Nia New")
    row.get_by_label("Role of Nia New").select_option("builder")
    expect(owner_page.get_by_text("Nia New is now builder")).to_be_visible()
    assert Membership.objects.get(user__email="nia@example.com").role == "builder"


def test_a_role_can_be_saved_without_javascript(open_context: OpenContext, owner: User, workspace):
    nia = User.objects.create_user("nia@example.com", PASSWORD, name="Nia New")
    Membership.objects.create(workspace=workspace, user=nia, role="viewer")
    page = sign_in(open_context(java_script_enabled=False).new_page(), owner)
    page.goto("/settings/members/")
    row = page.get_by_role("row", name="Nia New")
    row.get_by_label("Role of Nia New").select_option("admin")
    row.get_by_role("button", name="Save").click()

    expect(page.get_by_text("Nia New is now admin")).to_be_visible()


def test_the_settings_fit_a_phone_and_its_menu_works(
    open_context: OpenContext, owner: User, workspace
):
    page = sign_in(open_context(viewport=PHONE, has_touch=True).new_page(), owner)
    for path in ("/", "/settings/members/", "/settings/keys/", "/settings/account/"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], path
    page.get_by_text("More").click()
    page.get_by_role("link", name="New workspace").last.click()
    page.get_by_label("Name").fill("Second")
    page.get_by_role("button", name="Create workspace").click()

    expect(page).to_have_title(re.compile("Second"))
