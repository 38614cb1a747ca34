"""Takes a picture of every page, in a full and in a new workspace. Asserts nothing."""

from __future__ import annotations

import pytest
from django.test import Client
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from tenants.access import principal_of_user
from tenants.models import User, Workspace
from tenants.workspaces import invite
from tests.browser.conftest import OpenContext
from tests.browser.every_page import (
    addresses_in,
    pages_of,
    pages_of_a_new_workspace,
    sign_in_as,
)
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen
from tests.conftest import add_member

LOOKS = [(size, theme) for size in SIZES for theme in THEMES]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]


def open_look(open_context: OpenContext, client: Client, url: str, size: str, theme: str) -> Page:
    context = open_context(**as_seen(size, theme))
    sign_in_as(context, client, url)
    TARGET.mkdir(parents=True, exist_ok=True)
    return context.new_page()


def take(page: Page, path: str, name: str) -> None:
    page.goto(path)
    page.screenshot(path=TARGET / f"{name}.png", full_page=True)


def file_name(route: str) -> str:
    return route.strip("/").replace("/", "_").replace("<", "").replace(">", "") or "home"


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_every_page_of_a_full_workspace(
    open_context: OpenContext,
    browser_client: Client,
    owner: User,
    workspace: Workspace,
    live_server: LiveServer,
    size: str,
    theme: str,
) -> None:
    addresses = pages_of(browser_client, addresses_in(workspace, owner))
    page = open_look(open_context, browser_client, live_server.url, size, theme)
    for route, address in addresses.items():
        take(page, address, f"walk-{file_name(route)}-{size}-{theme}")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_every_page_of_a_new_workspace(
    open_context: OpenContext, browser_client: Client, live_server: LiveServer, size, theme
) -> None:
    page = open_look(open_context, browser_client, live_server.url, size, theme)
    for path in pages_of_a_new_workspace(browser_client):
        take(page, path, f"new-{file_name(path)}-{size}-{theme}")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_refusals_and_invitations(
    open_context: OpenContext,
    workspace: Workspace,
    owner: User,
    live_server: LiveServer,
    monkeypatch,
    complaints: list[str],
    size: str,
    theme: str,
) -> None:
    invited = invite(principal_of_user(owner, workspace.pk), email="nia@example.com", role="viewer")
    client = Client()
    client.force_login(add_member(workspace, "viewer"))
    page = open_look(open_context, client, live_server.url, size, theme)
    monkeypatch.setattr("tenants.pages.billing.render", broken)
    for name, path in {
        "403": "/agents/new/",
        "404": "/nowhere/",
        "500": "/usage/",
        "invitation-mine": f"/invitations/{invited.token}/",
        "vault-viewer": "/settings/vault/",
        "policies-viewer": "/policies/",
    }.items():
        take(page, path, f"refusal-{name}-{size}-{theme}")
    page.context.clear_cookies()
    for name, path in {
        "invitation": f"/invitations/{invited.token}/",
        "invitation-spent": "/invitations/spent/",
        "404": "/nowhere/",
    }.items():
        take(page, path, f"door-{name}-{size}-{theme}")
    complaints.clear()


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("It broke.")
