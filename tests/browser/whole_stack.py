"""Fixtures for one whole stack for all tests of this folder, with a new workspace for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.listening import listen
from tests.browser.looks import TIMEOUT_MS, WIDE
from tests.stack.running import Running, started

OpenChat = Callable[..., Page]
#: Expected browser errors when a test has cut the connection.
EXPECTED_ERRORS = ("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED", "WebSocket connection to")


@pytest.fixture(scope="package")
def stack() -> Iterator[Running]:
    """Start the stack; the demo's delay lets a test wait for an answer or interrupt it."""
    with started("browser", DEMO_DELAY_SECONDS="0.015", SIGN_UP="open") as running:
        yield running


@pytest.fixture(scope="package")
def signed_in(stack: Running, chromium: Browser) -> Any:
    return sign_in_by_link(stack, chromium)


def sign_in_by_link(stack: Running, chromium: Browser) -> Any:
    """Sign the owner in by link and return the cookies."""
    context = chromium.new_context(base_url=stack.base_url)
    page = context.new_page()
    page.goto(stack.manage("sign_in_link").stdout.strip())
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Skip for now").click()
    expect(page).to_have_url(f"{stack.base_url}/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def identity(stack: Running, chromium: Browser, signed_in: Any) -> Any:
    """Switch the owner to a new workspace, so that tests do not disturb each other."""
    context = chromium.new_context(base_url=stack.base_url, storage_state=signed_in)
    token = next(one["value"] for one in context.cookies() if one["name"] == "csrftoken")
    made = context.request.post(
        "/workspaces/new/",
        form={"name": "Yard", "csrfmiddlewaretoken": token},
        headers={"Referer": f"{stack.base_url}/"},
    )
    assert made.url == f"{stack.base_url}/"
    context.close()
    return signed_in


@pytest.fixture
def open_window(
    chromium: Browser, stack: Running, identity: Any, complaints: list[str]
) -> Iterator[OpenChat]:
    """Return a function that opens a window as the owner; CSP and script errors fail the test."""
    opened: list[BrowserContext] = []

    def open_one(path: str = "/chat/", **options: Any) -> Page:
        context = chromium.new_context(
            **{
                "base_url": stack.base_url,
                "storage_state": identity,
                "viewport": WIDE,
                "reduced_motion": "reduce",
                **options,
            }
        )
        context.set_default_timeout(TIMEOUT_MS)
        listen(context, complaints, EXPECTED_ERRORS)
        opened.append(context)
        page = context.new_page()
        page.goto(path)
        return page

    yield open_one
    for context in opened:
        context.close()
    assert complaints == []
