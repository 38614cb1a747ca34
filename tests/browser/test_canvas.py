"""Tests of the canvas on the real stack: built, run, debugged and mended by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_of
from tests.browser.canvas import (
    add,
    draw,
    edge,
    is_saved,
    new_agent,
    node,
    node_box,
    open_canvas,
    saved,
)
from tests.browser.looks import PHONE
from tests.browser.whole_stack import OpenChat

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def begin(page: Page) -> tuple[Page, str]:
    agent = new_agent(page)
    return open_canvas(page, agent), agent


def test_a_canvas_is_built_by_mouse(open_window: OpenChat):
    page, agent = begin(open_window("/agents/"))
    page.get_by_role("button", name="Add a node").click()
    page.get_by_role("option", name="Start").click()
    expect(node_box(page, "Start")).to_be_visible()
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("option", name="Ask this agent").click()
    page.get_by_role("textbox", name="Message").fill("say hello")
    page.get_by_role("textbox", name="Name").fill("Greeting")
    is_saved(page)

    box = node_box(page, "Greeting").bounding_box()
    assert box
    page.mouse.move(box["x"] + 60, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] + 130, steps=8)
    page.mouse.up()
    is_saved(page)
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("button", name="Published r")).to_be_visible()

    drawn = saved(page, agent)
    greeting = next(one for one in drawn["nodes"] if one["name"] == "Greeting")
    assert greeting["config"] == {"prompt": "say hello"}
    assert greeting["position"]["y"] > 50
    assert [(one["source"], one["target"]) for one in drawn["edges"]] == [("trigger", "agent")]
    assert drawn["published_revision"] == drawn["revision"]
    assert faults_of(page) == []


def test_a_connection_is_drawn_by_mouse_from_handle_to_handle(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    draw(page, agent, [node("a", "trigger", name="From"), node("b", "output", 400, 100, "To")], [])
    open_canvas(page, agent)
    node_box(page, "From").locator(".react-flow__handle.source").drag_to(
        node_box(page, "To").locator(".react-flow__handle.target")
    )
    expect(page.locator(".react-flow__edge")).to_have_count(1)
    is_saved(page)
    expect(page.locator(".cv-saved")).to_have_text("Saved · r2")
    assert [(one["source"], one["target"]) for one in saved(page, agent)["edges"]] == [("a", "b")]


def test_a_canvas_is_built_and_mended_by_keyboard_alone(open_window: OpenChat):
    page, agent = begin(open_window("/agents/"))
    page.get_by_role("button", name="Add a node").focus()
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="Search node types").fill("start")
    page.keyboard.press("Enter")
    expect(page.locator(".react-flow__node:focus")).to_be_visible()
    add(page, "decide")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.type("Large?")
    page.keyboard.press("Tab")  # the menu of values
    page.keyboard.press("Tab")
    page.keyboard.type("input.amount > 100")
    page.keyboard.press("Escape")
    expect(page.locator(".react-flow__node:focus")).to_be_visible()
    add(page, "output")
    page.keyboard.press("[")
    expect(page.locator(".react-flow__node:focus")).to_have_attribute("data-id", "condition")
    add(page, "output")
    is_saved(page)
    lines = {(one["source"], one["handle"], one["target"]) for one in saved(page, agent)["edges"]}
    assert lines == {
        ("trigger", "", "condition"),
        ("condition", "true", "output"),
        ("condition", "false", "output_2"),
    }

    page.keyboard.press("Delete")
    expect(page.locator(".react-flow__node")).to_have_count(3)
    page.keyboard.press("Control+z")
    expect(page.locator(".react-flow__node")).to_have_count(4)
    page.keyboard.press("Control+Shift+z")
    expect(page.locator(".react-flow__node")).to_have_count(3)
    page.keyboard.press("f")
    page.keyboard.type("large")
    page.keyboard.press("Enter")
    expect(page.locator(".react-flow__node:focus")).to_have_attribute("data-id", "condition")
    page.keyboard.press("Control+c")
    page.keyboard.press("Control+v")
    expect(page.locator(".react-flow__node")).to_have_count(4)
    page.keyboard.press("c")
    page.keyboard.type("output")
    page.keyboard.press("Enter")
    is_saved(page)
    lines = {(one["source"], one["handle"], one["target"]) for one in saved(page, agent)["edges"]}
    assert ("condition_2", "true", "output") in lines


def test_a_cycle_is_explained_at_its_nodes(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    nodes = [
        node("start", "trigger"),
        node("a", "agent", 300, name="First", prompt="x"),
        node("b", "agent", 600, name="Second", prompt="y"),
    ]
    draw(page, agent, nodes, [edge("start", "a"), edge("a", "b"), edge("b", "a")])
    open_canvas(page, agent)
    expect(node_box(page, "First").locator(".cv-node-problem.is-error")).to_be_visible()
    page.get_by_role("tab", name="Problems").click()
    page.get_by_role("button", name="First").click()
    why = "This node is part of a cycle: First → Second → First. Remove one of these edges."
    expect(page.locator(".cv-panel")).to_contain_text(why)
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("alert").first).to_contain_text("part of a cycle")
    node_box(page, "Second").click()
    page.get_by_role("button", name="Remove the connection to First").click()
    expect(page.locator(".cv-node-problem.is-error")).to_have_count(0)


def test_the_canvas_fits_a_phone_in_the_dark_theme(open_window: OpenChat):
    page = open_window("/agents/", viewport=PHONE, color_scheme="dark", has_touch=True)
    page, _ = begin(page)
    page.get_by_role("button", name="Add a node").click()
    page.get_by_role("option", name="Start").click()
    is_saved(page)
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
