"""Every page there is, full of hostile words: axe, the content security policy, its width, and no harm."""

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
from tests.browser.corpus import harm_in, watch
from tests.browser.every_page import (
    pages_among,
    pages_of_a_new_workspace,
    places_in,
    sign_in_as,
)
from tests.browser.looks import PHONE, WIDE
from tests.browser.poisoned import poison
from tests.conftest import add_member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


@pytest.fixture
def places(owner: User, workspace: Workspace) -> dict[str, str]:
    """Where each route leads in a workspace that has one of everything at least."""
    found = places_in(workspace, owner)
    poison(workspace)
    return found


#: How wide a page is, and the innermost of its elements that reach as far.
WIDEST = """() => {
    const wide = document.documentElement.scrollWidth;
    const far = [...document.querySelectorAll("main *")].filter(
        (one) => one.getBoundingClientRect().right >= wide);
    return [wide, far.at(-1)?.outerHTML.slice(0, 200) ?? ""];
}"""


def look_at(page: Page, path: str, width: int) -> list[str]:
    """All that is wrong with one page, folded parts of it included."""
    page.goto(path)
    page.evaluate(
        """() => document.querySelectorAll("main details:not(.menu-box)").forEach(
            (one) => { one.open = true; })"""
    )
    wide, what = page.evaluate(WIDEST)
    too_wide = [f"{path} is {wide} wide, not {width}: {what}"] if wide > width else []
    return [*faults_of(page), *harm_in(page), *too_wide]


LOOKS = pytest.mark.parametrize(
    ("size", "theme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide-light", "phone-dark"]
)


def test_harm_would_be_seen(open_context: OpenContext, complaints: list[str]):
    """Else the tests below would pass on pages that let everything through."""
    page = open_context().new_page()
    watch(page.context)
    page.goto("/sign-in/")
    assert harm_in(page) == []
    for one in ("<img src=x onerror=hit()>", "<a href=javascript:hit()>x</a>", "<object data=x>"):
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", one)
        assert harm_in(page) != []
        page.reload()
    complaints.clear()  # The content security policy has refused what it is there to refuse.


@LOOKS
def test_every_page_of_a_hostile_workspace_is_sound(
    open_context: OpenContext,
    browser_client: Client,
    places: dict[str, str],
    live_server: LiveServer,
    size,
    theme,
):
    context = open_context(viewport=size, color_scheme=theme)
    asked = watch(context)
    sign_in_as(context, browser_client, live_server.url)
    page = context.new_page()
    wrong = [
        fault
        for path in pages_among(browser_client, places).values()
        for fault in look_at(page, path, size["width"])
    ]
    assert not wrong, "\n".join(wrong)
    assert asked == []


def test_every_page_of_a_new_workspace_is_sound(
    open_context: OpenContext, browser_client: Client, live_server: LiveServer
):
    context = open_context(viewport=PHONE)
    watch(context)
    sign_in_as(context, browser_client, live_server.url)
    page = context.new_page()
    pages = pages_of_a_new_workspace(browser_client)
    assert len(pages) > 30
    wrong = [fault for path in pages for fault in look_at(page, path, PHONE["width"])]
    assert not wrong, "\n".join(wrong)


@LOOKS
def test_every_door_is_sound(
    open_context: OpenContext, owner: User, workspace: Workspace, size, theme
):
    who = principal_of_user(owner, workspace.pk)
    invited = invite(who, email="nia@example.com", role="viewer").token
    poison(workspace)
    owner.refresh_from_db()
    reset = default_token_generator.make_token(owner)
    uid = urlsafe_base64_encode(force_bytes(owner.pk))
    page = open_context(viewport=size, color_scheme=theme).new_page()
    watch(page.context)
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
    assert [fault for path in doors for fault in look_at(page, path, size["width"])] == []


@LOOKS
def test_every_kind_of_refusal_is_sound(
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
    watch(context)
    sign_in_as(context, client, live_server.url)
    page = context.new_page()
    monkeypatch.setattr("tenants.pages.billing.render", broken)
    refusals = {"/agents/new/": 403, "/nowhere/": 404, "/usage/": 500}
    wrong = []
    for path, status in refusals.items():
        assert page.request.get(path).status == status
        wrong += look_at(page, path, size["width"])
    complaints[:] = [one for one in complaints if "status of 500" not in one]
    assert not wrong, "\n".join(wrong)


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("It broke.")
