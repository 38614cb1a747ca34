"""Tests of the example plugin in the browser, installed with pip: its page, tool, workflow and node."""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults_of
from tests.browser.talking import answers, begin, rests, token_of
from tests.browser.test_workflows import start
from tests.browser.whole_stack import OpenChat, sign_in_by_link
from tests.plugins.test_example import copy_source, install
from tests.stack.running import Running, started

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
QUERY = "SELECT customer FROM orders ORDER BY id"


@pytest.fixture(scope="module")
def stack() -> Iterator[Running]:
    """Start a stack with the example plugin, which its entry point alone makes known."""
    folder = Path(tempfile.mkdtemp(prefix="switchyard-plugins-"))
    folder.chmod(0o755)
    made = sqlite3.connect(folder / "shop.db")
    made.execute("CREATE TABLE orders (id INTEGER, customer TEXT)")
    made.executemany("INSERT INTO orders VALUES (?, ?)", [(1, "Ada"), (2, "Bob")])
    made.commit()
    made.close()
    install(copy_source(folder / "clone"), sys.executable, "--target", str(folder / "site"))
    try:
        with started(
            "plugins",
            PYTHONPATH=str(folder / "site"),
            SQL_TOOLS_URL=f"sqlite://{folder / 'shop.db'}",
            SQL_TOOLS_WORKSPACES="*",
            DEMO_DELAY_SECONDS="0",
            SIGN_UP="open",
        ) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def signed_in(stack: Running, chromium: Browser) -> Any:
    return sign_in_by_link(stack, chromium)


def test_the_rail_leads_to_its_page(open_window: OpenChat) -> None:
    page = open_window("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Database").click()

    expect(page).to_have_url(re.compile("/plugins/sql_tools/$"))
    expect(page.get_by_role("row", name="orders")).to_contain_text("customer (TEXT)")
    page.get_by_label("One SELECT statement").fill(QUERY)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("table", name="Result")).to_contain_text("Bob")
    assert faults_of(page) == []


def test_an_agent_uses_its_tool(open_window: OpenChat) -> None:
    page = begin(open_window(), f'use sql_query with {{"query": "{QUERY}"}}')

    rests(page)
    expect(answers(page).last).to_contain_text("Ada")


def test_its_workflow_writes_a_report(open_window: OpenChat) -> None:
    page = open_window("/workflows/")
    start(page, "sql-report")

    expect(page.locator("#flow-head .state")).to_have_text("Complete")
    expect(page.locator("#flow-out")).to_contain_text("reports/")


def draw(page: Page) -> str:
    """Draw and publish a canvas with the plugin's node, and return the agent's id."""
    nodes = [
        {"id": "start", "type": "trigger"},
        {"id": "orders", "type": "sql_table", "name": "Orders", "config": {"query": QUERY}},
        {"id": "end", "type": "output"},
    ]
    edges = [{"source": "start", "target": "orders"}, {"source": "orders", "target": "end"}]
    headers = {"X-CSRFToken": token_of(page) or "", "Referer": page.url}
    agent = page.request.get("/api/v1/agents/").json()["results"][0]["id"]
    canvas = f"/api/v1/agents/{agent}/canvas/"
    drawn = page.request.put(
        canvas, data={"nodes": nodes, "edges": edges, "revision": 0}, headers=headers
    )
    assert drawn.json()["problems"] == []
    assert page.request.post(f"{canvas}publish/", data={}, headers=headers).ok
    return str(agent)


def test_a_canvas_runs_its_node(open_window: OpenChat) -> None:
    page = open_window("/chat/")
    agent = draw(page)

    page.goto(f"/agents/{agent}/build/?tab=canvas")
    expect(page.locator(".react-flow__node").filter(has_text="Orders")).to_be_visible()
    page.goto("/workflows/")
    page.get_by_role("link", name="Start", exact=False).first.click()
    page.locator(".flow-choices").get_by_role("link", name=re.compile("^canvas")).click()
    page.get_by_role("textbox", name="Agent").fill(agent)
    page.get_by_role("button", name="Start").click()

    expect(page.locator("#flow-head .state")).to_have_text("Complete")
    expect(page.locator("#flow-out").get_by_role("cell", name="Ada")).to_be_visible()
