"""Tests every page with the Tab key: all is reachable, the focus is visible and never trapped."""

from __future__ import annotations

import pytest
from django.test import Client
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from tenants.models import User, Workspace
from tests.browser.conftest import OpenContext
from tests.browser.every_page import (
    pages_of_a_new_workspace,
    sign_in_as,
)
from tests.browser.looks import PHONE, WIDE
from tests.browser.sessions_gallery import populate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

#: More focus stops than any of these pages has.
MOST_STOPS = 250
#: A chat focuses its composer when its script is mounted.
MOUNTED = "() => !document.querySelector('[data-island=chat]:not([data-mounted])')"
#: Moves the focus to the start of a page that has focused one of its fields.
FOCUS_START = """() => {
    if (document.activeElement === document.body) return;
    const before = document.createElement("button");
    document.body.prepend(before);
    before.focus();
    before.remove();
}"""
#: Marks the focused element as reached and tells whether it, or its stand-in, has a visible ring.
MARK_FOCUS = """() => {
    const it = document.activeElement;
    if (!it || it === document.body) return null;
    it.dataset.reached = "";
    const rings = (one) => one && [null, "::after"].some((part) => {
        const style = getComputedStyle(one, part);
        return style.outlineStyle !== "none" || style.boxShadow !== "none";
    });
    const box = it.getBoundingClientRect();
    const stands = [it, it.nextElementSibling, it.closest("label, .options, .composer-box, .palette-input")];
    const seen = stands.some(rings) && (it.type === "radio" || (box.width > 0 && box.height > 0));
    return [seen, `${it.tagName} ${it.className} ${(it.textContent ?? "").trim().slice(0, 40)}`];
}"""
#: Lists the usable elements that were not reached. One radio of a group is enough.
MISSED = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
    .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled
        && one.type !== "hidden" && one.tabIndex >= 0 && !("reached" in one.dataset)
        && !(one.type === "radio" && document.querySelector(`[name="${one.name}"][data-reached]`)))
    .map((one) => `${one.tagName} ${one.className} ${(one.textContent ?? "").trim().slice(0, 40)}`)"""


def tab_through(page: Page, path: str) -> list[str]:
    """Press Tab through a page and return all problems."""
    page.goto(path)
    page.wait_for_function(MOUNTED)
    if path.startswith("/chat/"):
        # The panel of the context is fetched after the page.
        page.wait_for_load_state("networkidle")
    page.evaluate(FOCUS_START)
    wrong = []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(MARK_FOCUS)
        if stop is None:
            break
        is_seen, name = stop
        if not is_seen:
            wrong.append(f"{path}: the focus is not visible on {name}")
    else:
        wrong.append(f"{path}: the focus is trapped")
    return [*wrong, *(f"{path}: not reached: {name}" for name in page.evaluate(MISSED))]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_every_page_can_be_used_with_the_keyboard_alone(
    open_context: OpenContext,
    browser_client: Client,
    live_server: LiveServer,
    workspace: Workspace,
    owner: User,
    size,
):
    session = populate(workspace, owner)
    context = open_context(viewport=size)
    sign_in_as(context, browser_client, live_server.url)
    page = context.new_page()
    tabs = ["", "timeline/", "context/", "tree/", "files/", "outcome/", "events/", "replay/"]
    paths = [
        *pages_of_a_new_workspace(browser_client),
        f"/chat/{session.pk}/",
        *(f"/sessions/{session.pk}/{tab}" for tab in tabs),
    ]
    wrong = [fault for path in paths for fault in tab_through(page, path)]
    assert not wrong, "\n".join(wrong)
