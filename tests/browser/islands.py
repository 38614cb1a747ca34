"""Helpers that wait for a page's scripts, which a test could otherwise overtake."""

from __future__ import annotations

from playwright.sync_api import Page


def mounted(page: Page, island: str) -> None:
    """Wait until the script of this island is mounted."""
    page.wait_for_selector(f"[data-island={island}][data-mounted]", state="attached")


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other once the page is loaded."""
    page.wait_for_load_state("load")
    for key in keys:
        page.keyboard.press(key)
