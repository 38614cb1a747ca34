"""Tests of every page, filled with hostile text: accessibility, CSP, width and injections."""

from __future__ import annotations

import pytest
from django.contrib.auth.tokens import default_token_generator
from django.test import Client
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from tenants.access import principal_of_user
from tenants.accounts import make_sign_in_link
from tenants.models import User, Workspace
from tenants.workspaces import invite
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext
from tests.browser.corpus import injections_in, record_requests
from tests.browser.every_page import (
    addresses_in,
    pages_of,
    pages_of_a_new_workspace,
    sign_in_as,
)
from tests.browser.looks import PHONE, WIDE
from tests.browser.poisoned import poison
from tests.conftest import add_member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def addresses(owner: User, workspace: Workspace) -> dict[str, str]:
    """Fill a workspace with hostile text and return an address for each route."""
    found = addresses_in(workspace, owner)
    poison(workspace)
    return found


#: Returns the width of the page and the innermost element that reaches its right edge.
WIDEST = """() => {
    const wide = document.documentElement.scrollWidth;
    const far = [...document.querySelectorAll("main *")].filter(
        (one) => one.getBoundingClientRect().right >= wide);
    return [wide, far.at(-1)?.outerHTML.slice(0, 200) ?? ""];
}"""


def problems_of(page: Page, path: str, width: int) -> list[str]:
    """Return all problems of a page, including its folded parts."""
    page.goto(path)
    page.evaluate(
        """() => document.querySelectorAll("main details:not(.menu-box)").forEach(
            (one) => { one.open = true; })"""
    )
    wide, what = page.evaluate(WIDEST)
    too_wide = [f"{path} is {wide} wide, not {width}: {what}"] if wide > width else []
    return [*faults_of(page), *injections_in(page), *too_wide]


LOOKS = pytest.mark.parametrize(
    ("size", "theme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide-light", "phone-dark"]
)


def test_an_injection_would_be_detected(open_context: OpenContext, complaints: list[str]):
    """Without this, the tests below would also pass if the detection did not work."""
    page = open_context().new_page()
    record_requests(page.context)
    page.goto("/sign-in/")
    assert injections_in(page) == []
    for one in ("<img src=x onerror=hit()>", "<a href=javascript:hit()>x</a>", "<object data=x>"):
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", one)
        assert injections_in(page) != []
        page.reload()
    complaints.clear()  # The content security policy refused the injections, as expected.


@LOOKS
def test_no_page_of_a_hostile_workspace_has_problems(
    open_context: OpenContext,
    browser_client: Client,
    addresses: dict[str, str],
    live_server: LiveServer,
    size,
    theme,
):
    context = open_context(viewport=size, color_scheme=theme)
    asked = record_requests(context)
    sign_in_as(context, browser_client, live_server.url)
    page = context.new_page()
    wrong = [
        fault
        for path in pages_of(browser_client, addresses).values()
        for fault in problems_of(page, path, size["width"])
    ]
    assert not wrong, "\n".join(wrong)
    assert asked == []


def test_no_page_of_a_new_workspace_has_problems(
    open_context: OpenContext, browser_client: Client, live_server: LiveServer
):
    context = open_context(viewport=PHONE)
    record_requests(context)
    sign_in_as(context, browser_client, live_server.url)
    page = context.new_page()
    pages = pages_of_a_new_workspace(browser_client)
    assert len(pages) > 30
    wrong = [fault for path in pages for fault in problems_of(page, path, PHONE["width"])]
    assert not wrong, "\n".join(wrong)


@LOOKS
def test_no_public_page_has_problems(
    open_context: OpenContext, owner: User, workspace: Workspace, size, theme
):
    who = principal_of_user(owner, workspace.pk)
    invited = invite(who, email="nia@example.com", role="viewer").token
    poison(workspace)
    owner.refresh_from_db()
    reset = default_token_generator.make_token(owner)
    uid = urlsafe_base64_encode(force_bytes(owner.pk))
    page = open_context(viewport=size, color_scheme=theme).new_page()
    record_requests(page.context)
    doors = [
        "/sign-in/",
        "/sign-up/",
        f"/sign-in/{make_sign_in_link(owner)}/",
        "/sign-in/spent/",
        f"/invitations/{invited}/",
        "/invitations/spent/",
        "/password/reset/",
        "/password/reset/sent/",
        f"/password/reset/{uid}/{reset}/",
        f"/password/reset/{uid}/spent/",
        "/nowhere/",
    ]
    assert [fault for path in doors for fault in problems_of(page, path, size["width"])] == []


@LOOKS
def test_no_error_page_has_problems(
    open_context: OpenContext,
    workspace: Workspace,
    live_server: LiveServer,
    monkeypatch,
    complaints: list[str],
    size,
    theme,
):
    client = Client()
    client.force_login(add_member(workspace, "viewer"))
    context = open_context(viewport=size, color_scheme=theme)
    record_requests(context)
    sign_in_as(context, client, live_server.url)
    page = context.new_page()
    monkeypatch.setattr("tenants.pages.billing.render", broken)
    refusals = {"/agents/new/": 403, "/nowhere/": 404, "/usage/": 500}
    wrong = []
    for path, status in refusals.items():
        assert page.request.get(path).status == status
        wrong += problems_of(page, path, size["width"])
    complaints[:] = [one for one in complaints if "status of 500" not in one]
    assert not wrong, "\n".join(wrong)


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("It broke.")
