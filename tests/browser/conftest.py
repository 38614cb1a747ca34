"""Fixtures for a real Chromium with a live server; CSP violations and script errors fail tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    expect,
    sync_playwright,
)
from pytest_django.live_server_helper import LiveServer

from core.env import ROOT
from tenants.models import User
from tests.browser.listening import listen
from tests.browser.looks import TIMEOUT_MS, WIDE
from tests.browser.whole_stack import identity, open_window, signed_in, stack

__all__ = ["identity", "open_window", "signed_in", "stack"]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PASSWORD = "correct horse 9"
#: Errors to ignore: Django's live server does not support WebSockets.
IGNORED = ("WebSocket connection to", "status of 4")

OpenContext = Callable[..., BrowserContext]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Start one browser for the folder; its event loop would disturb async tests elsewhere."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    expect.set_options(timeout=TIMEOUT_MS)
    program = subprocess.check_output([ROOT / "bin" / "chromium"], text=True).strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def complaints() -> list[str]:
    """Collect the browser's errors. A test that expects some clears the list."""
    return []


@pytest.fixture
def open_context(
    chromium: Browser, live_server: LiveServer, complaints: list[str], settings: Any
) -> Iterator[OpenContext]:
    """Return a function that opens a browser context with its own cookies."""
    settings.PUBLIC_URL = live_server.url
    opened: list[BrowserContext] = []

    def open_one(**options: Any) -> BrowserContext:
        context = chromium.new_context(
            **{"base_url": live_server.url, "viewport": WIDE, "reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(TIMEOUT_MS)
        listen(context, complaints, IGNORED)
        opened.append(context)
        return context

    yield open_one
    for context in opened:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_context: OpenContext) -> Page:
    return open_context().new_page()


def sign_in(page: Page, user: User) -> Page:
    page.goto("/sign-in/")
    page.get_by_label("E-mail").fill(user.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url("/")
    return page


@pytest.fixture
def owner_page(page: Page, owner: User, workspace: object) -> Page:
    """Open the home page as the owner."""
    return sign_in(page, owner)
