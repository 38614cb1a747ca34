"""Tests of the inbox and of webhooks in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tenants.models import User, Webhook, WebhookDelivery, Workspace
from tenants.notifications import inbox
from tenants.notifications.webhooks import announce
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.looks import PHONE

pytestmark = pytest.mark.django_db(transaction=True)

BODY = "The **nightly** run ended.\n\n- 12 reports\n- 1 failure: `billing`\n"


def test_an_item_can_be_read_and_marked_as_unread(
    owner_page: Page, workspace: Workspace, owner: User
):
    page = owner_page
    page.goto("/inbox/")
    expect(page.get_by_role("heading", name="Your inbox is empty")).to_be_visible()
    assert faults_of(page) == []
    inbox.put(workspace.pk, title="Nightly report", body=BODY, kind="message")
    inbox.put(workspace.pk, title="A webhook was disabled", body="Fix it.", kind="warning")
    page.reload()
    expect(page.locator("a[href='/inbox/'] .rail-count").first).to_have_text("2")
    page.get_by_role("link", name="Nightly report").click()

    pane = page.get_by_role("region", name="Reading pane")
    expect(pane.get_by_role("heading", name="Nightly report")).to_be_visible()
    expect(pane.locator("strong")).to_have_text("nightly")
    expect(page.locator("a[href='/inbox/'] .rail-count").first).to_have_text("1")
    assert faults_of(page) == []
    pane.get_by_role("button", name="Mark as unread").click()
    expect(page.locator("a[href='/inbox/'] .rail-count").first).to_have_text("2")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator("a[href='/inbox/'] .rail-count").first).to_be_hidden()
    page.get_by_role("link", name="Unread", exact=True).click()
    expect(page.get_by_role("heading", name="No unread items")).to_be_visible()


def test_the_list_opens_an_item_and_returns_on_a_phone(
    open_context: OpenContext, owner: User, workspace: Workspace
):
    inbox.put(workspace.pk, title="Nightly report " * 6, body=BODY, kind="message")
    page = sign_in(open_context(viewport=PHONE, has_touch=True).new_page(), owner)
    page.goto("/inbox/")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.get_by_role("link", name="Nightly report").click()
    expect(page.get_by_role("link", name="All items")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert faults_of(page) == []
    page.get_by_role("link", name="All items").click()

    expect(page.get_by_role("link", name="Nightly report")).to_be_visible()


def test_a_webhook_can_be_added_tested_replayed_and_enabled_again(
    owner_page: Page, workspace: Workspace
):
    page = owner_page
    page.goto("/settings/webhooks/")
    assert faults_of(page) == []
    page.get_by_role("link", name="New webhook").first.click()
    page.get_by_label("Address").fill("http://127.0.0.1/hook")
    page.get_by_label("run.failed").check()
    assert faults_of(page) == []
    page.get_by_role("button", name="Add webhook").click()
    expect(page.get_by_text("is not on the public internet")).to_be_visible()
    expect(page.get_by_label("run.failed")).to_be_checked()
    page.get_by_label("Address").fill("https://example.com/hook")
    page.get_by_label("Patterns").fill("session.*")
    page.get_by_role("button", name="Add webhook").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("whsec_")
    assert faults_of(page) == []
    page.get_by_role("link", name="Done").click()
    assert secret not in page.content()

    page.get_by_role("button", name="Send test event").click()
    expect(page.get_by_role("row", name="webhook.ping")).to_be_visible()
    announce(workspace.pk, "run.failed", {"n": 1})
    WebhookDelivery.objects.update(status="failed", attempts=11, next_attempt_at=None)
    page.reload()
    page.get_by_role("button", name="Resend run.failed").click()
    expect(page.get_by_role("row", name="run.failed").get_by_text("Queued")).to_be_visible()
    Webhook.objects.update(active=False, disabled_reason="The endpoint responded 410 Gone.")
    page.reload()
    assert faults_of(page) == []
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_text("Webhook enabled.")).to_be_visible()
    assert Webhook.objects.get().events == ["run.failed", "session.*"]
