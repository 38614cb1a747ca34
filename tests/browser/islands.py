"""Waits for a page's scripts where a person would not be quick enough to come before them."""

from __future__ import annotations

from playwright.sync_api import Page


def mounted(page: Page, island: str) -> None:
    """Until the script of this island has taken its element over."""
    page.wait_for_selector(f"[data-island={island}][data-mounted]", state="attached")


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other, on a page that listens to keys."""
    page.wait_for_load_state("load")
    for key in keys:
        page.keyboard.press(key)
