"""Takes pictures of the canvas on a real stack. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.canvas import draw, edge, new_agent, node, node_box, open_canvas
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot
from tests.browser.whole_stack import OpenChat

NODES = [
    node("start", "trigger", schema={
        "type": "object", "required": ["amount"],
        "properties": {"amount": {"type": "number", "title": "Amount"},
                       "note": {"type": "string", "title": "Note"}}}),
    node("check", "agent", name="Check the invoice", prompt="say The invoice over {{input.amount}} is fine."),
    node("large", "condition", name="Is it large?", expression="input.amount > 100"),
    node("ask", "approval", name="Pay it?", message="Pay {{input.amount}}?"),
    node("pay", "wait", name="Payment run", seconds=1),
    node("paid", "output", name="Paid", value="{{nodes.check.output}}"),
    node("remind", "note", text="Payments over 100 need a person. Ask Ada before changing this."),
    node("broken", "tool", name="Book it"),
]  # fmt: skip
EDGES = [edge("start", "check"), edge("check", "large"), edge("large", "ask", "true"),
         edge("large", "pay", "false"), edge("ask", "pay"), edge("pay", "paid"),
         edge("pay", "broken")]  # fmt: skip


def shot(page: Page, name: str) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    shoot(page, name)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_the_canvas(open_window: OpenChat, size: str, theme: str) -> None:
    look = f"{size}-{theme}"
    page = open_window("/agents/", **as_seen(size, theme))
    agent = new_agent(page, name="Invoices")
    open_canvas(page, agent)
    shot(page, f"canvas-empty-{look}")
    draw(page, agent, NODES, EDGES)
    open_canvas(page, agent)
    page.get_by_role("region", name="Canvas").focus()
    page.keyboard.press("t")
    page.wait_for_timeout(800)
    shot(page, f"canvas-problems-{look}")
    node_box(page, "Check the invoice").click()
    shot(page, f"canvas-node-{look}")
    page.keyboard.press("a")
    shot(page, f"canvas-add-{look}")
    page.keyboard.press("Escape")
    page.goto(f"/agents/{agent}/build/?tab=canvas")
    page.wait_for_timeout(1000)
    shot(page, f"canvas-builder-{look}")
