"""One whole stack for all tests of this folder, and a workspace of its own for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.listening import listen
from tests.browser.looks import PATIENCE, WIDE
from tests.stack.running import Running, started

OpenChat = Callable[..., Page]
#: What a browser rightly says of a connection that a test has cut.
CUT = ("ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED", "WebSocket connection to")


@pytest.fixture(scope="package")
def stack() -> Iterator[Running]:
    """What it says comes quickly enough to wait for, slowly enough to cut."""
    with started("browser", DEMO_DELAY_SECONDS="0.015") as running:
        yield running


@pytest.fixture(scope="package")
def signed_in(stack: Running, chromium: Browser) -> Any:
    """The cookies of the owner, who came in by a link."""
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
    """The same cookies, in a new workspace: what other tests left is not in this one's way."""
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
    """A window of the owner. A fault of the content security policy or of a script fails the test."""
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
        context.set_default_timeout(PATIENCE)
        listen(context, complaints, CUT)
        opened.append(context)
        page = context.new_page()
        page.goto(path)
        return page

    yield open_one
    for context in opened:
        context.close()
    assert complaints == []
