"""Tests the way of a new person from a key to the answer of a model, counted in clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.listening import listen
from tests.browser.looks import TIMEOUT_MS, WIDE
from tests.browser.talking import answers
from tests.browser.whole_stack import EXPECTED_ERRORS, sign_in_by_link
from tests.stack.running import started
from tests.wire.answers import Answer
from tests.wire.openai import OpenAIWire

KEY = "sk-test-0123456789"
MOST_CLICKS = 5
COUNT_CLICKS = "addEventListener('click', (event) => event.isTrusted && window.countClick(), true)"


@pytest.fixture
def wire() -> Iterator[OpenAIWire]:
    with OpenAIWire(key=KEY, otherwise=Answer(text=["Boats float."])) as server:
        yield server


def test_a_key_leads_to_an_answer_in_five_clicks(
    chromium: Browser, wire: OpenAIWire, complaints: list[str]
):
    host = wire.url.split("//")[1].split("/")[0]
    with started("first-model", EGRESS_ALLOWED_PRIVATE=f"models={host}") as stack:
        cookies = sign_in_by_link(stack, chromium)
        options: dict[str, Any] = {"base_url": stack.base_url, "viewport": WIDE}
        context = chromium.new_context(storage_state=cookies, **options)
        context.set_default_timeout(TIMEOUT_MS)
        listen(context, complaints, EXPECTED_ERRORS)
        clicks: list[int] = []
        context.expose_function("countClick", lambda: clicks.append(1))
        context.add_init_script(COUNT_CLICKS)
        page = context.new_page()
        page.goto("/settings/providers/")
        connect(page, wire.url)
        page.goto("/chat/")
        page.get_by_role("textbox", name="Message").fill("Why do boats float?")
        page.keyboard.press("Enter")
        expect(answers(page).last).to_have_text("Boats float.")
        expect(page.get_by_text("gpt-4o-mini").first).to_be_visible()
        context.close()

    assert len(clicks) <= MOST_CLICKS
    assert complaints == []


def connect(page: Page, address: str) -> None:
    panel = page.get_by_role("region", name="OpenAI or compatible")
    panel.get_by_label("Address").fill(address)
    panel.get_by_label("Key", exact=True).fill(KEY)
    panel.get_by_role("button", name="Save and test").click()
    expect(page.get_by_text("was saved and works.")).to_be_visible()
    panel.get_by_label("Model for all agents").select_option("gpt-4o-mini")
    panel.get_by_role("button", name="Use for all agents").click()
    expect(page.get_by_text("now use gpt-4o-mini.")).to_be_visible()
