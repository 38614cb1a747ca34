"""Tests what the chat page weighs on the wire, from real requests of a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.talking import answers, begin, rests
from tests.browser.whole_stack import OpenChat

#: Bytes with headers: with an empty cache, and when scripts and styles are cached.
MOST_COLD, MOST_WARM = 150_000, 30_000


def weigh(page: Page, path: str) -> dict[str, int]:
    """Open a page and return the bytes that came over the wire, by address."""
    client = page.context.new_cdp_session(page)
    client.send("Network.enable")
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}

    def on_request(event: dict) -> None:
        names[event["requestId"]] = event["request"]["url"]

    def on_finished(event: dict) -> None:
        sizes[names.get(event["requestId"], "")] = int(event["encodedDataLength"])

    client.on("Network.requestWillBeSent", on_request)
    client.on("Network.loadingFinished", on_finished)
    page.goto(path)
    expect(page.locator("[data-island=chat][data-mounted]")).to_be_attached()
    expect(answers(page).first).to_contain_text("hello")
    page.wait_for_load_state("networkidle")
    client.detach()
    return sizes


def test_the_chat_page_is_light_cold_and_warm(open_window: OpenChat):
    first = begin(open_window(), "say hello", "Concierge")
    rests(first)
    page = open_window("/settings/account/")
    page.context.new_cdp_session(page).send("Network.clearBrowserCache")

    cold = weigh(page, first.url)
    page.goto("/settings/account/")
    warm = weigh(page, first.url)

    assert sum(cold.values()) < MOST_COLD, cold
    assert sum(warm.values()) < MOST_WARM, warm
    assert not any(size > 500 and "/static/dist/assets/" in name for name, size in warm.items())


def test_built_files_are_compressed_and_never_asked_for_again(open_window: OpenChat):
    page = open_window()
    style = page.locator("link[rel=stylesheet]").first.get_attribute("href")
    assert style
    answer = page.request.get(style, headers={"Accept-Encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
