"""Builds and runs canvases in a browser, for the tests and the pictures."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

#: An agent that answers without a model, so that runs end by themselves.
AGENT = {"name": "Walker", "provider": "demo", "model": "demo"}


def new_agent(page: Page, **fields: Any) -> str:
    """Create an agent over REST in the page's session, and return its id."""
    return str(call(page, "POST", "/api/v1/agents/", {**AGENT, **fields})["id"])


def call(page: Page, method: str, path: str, body: Any = None) -> Any:
    """Call REST as the signed-in person."""
    cookies = page.context.cookies()
    token = next(one["value"] for one in cookies if one["name"] == "csrftoken")
    answer = page.request.fetch(
        path,
        method=method,
        headers={
            "X-CSRFToken": token,
            "Referer": page.url,
            "Content-Type": "application/json",
        },
        data=json.dumps(body) if body is not None else None,
    )
    assert answer.ok, answer.text()
    return answer.json() if answer.text() else None


def node(id: str, type: str, x: int = 0, y: int = 0, name: str = "", **config: Any) -> dict:
    return {
        "id": id, "type": type, "name": name, "config": config, "position": {"x": x, "y": y}
    }  # fmt: skip


def edge(source: str, target: str, handle: str = "") -> dict:
    return {"source": source, "target": target, "handle": handle}


def draw(page: Page, agent: str, nodes: list[dict], edges: list[dict], revision: int = 0) -> Any:
    body = {"nodes": nodes, "edges": edges, "revision": revision}
    return call(page, "PUT", f"/api/v1/agents/{agent}/canvas/", body)


def saved(page: Page, agent: str) -> Any:
    """Return the canvas as the server has it."""
    return call(page, "GET", f"/api/v1/agents/{agent}/canvas/")


def open_canvas(page: Page, agent: str) -> Page:
    page.goto(f"/agents/{agent}/canvas/")
    expect(page.locator("[data-island=canvas][data-mounted]")).to_be_visible()
    return page


def node_box(page: Page, name: str) -> Locator:
    return page.locator(".react-flow__node").filter(has_text=name)


def is_saved(page: Page) -> None:
    expect(page.locator(".cv-saved")).to_have_text(re.compile(r"Saved · r\d+"))


def add(page: Page, kind: str) -> None:
    """Add a node by keyboard: it follows the selected one."""
    page.keyboard.press("a")
    page.get_by_role("combobox", name="Search node types").fill(kind)
    page.keyboard.press("Enter")
    expect(page.locator(".react-flow__node:focus, .cv-panel :focus")).to_be_visible()
