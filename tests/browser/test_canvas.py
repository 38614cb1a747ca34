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


FAULTY = [
    node("start", "trigger", schema={
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string", "title": "Your name"}}}),
    node("ask", "agent", 300, name="Greet", prompt="say Hello {{input.name}}."),
    node("turn", "tool", 600, name="Look up", tool="read", input={"path": "no-such-file.txt"}),
    node("end", "output", 900, name="Result", value="{{nodes.ask.output}}"),
]  # fmt: skip
FAULTY_EDGES = [edge("start", "ask"), edge("ask", "turn"), edge("turn", "end")]


def test_a_canvas_is_run_debugged_and_mended(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    draw(page, agent, FAULTY, FAULTY_EDGES)
    open_canvas(page, agent)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("textbox", name="Your name").fill("Ada")
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(node_box(page, "Greet").locator(".state.is-done")).to_be_visible()
    expect(node_box(page, "Look up").locator(".state.is-failed")).to_be_visible()
    expect(page.locator(".cv-panel")).to_contain_text("Failed")

    node_box(page, "Greet").click()
    expect(page.get_by_label("Input", exact=True)).to_have_text("say Hello Ada.")
    expect(page.get_by_label("Output", exact=True)).to_have_text("Hello Ada.")
    node_box(page, "Look up").click()
    expect(page.get_by_role("region", name="In this run")).to_contain_text("no-such-file.txt")
    assert faults_of(page) == []

    page.get_by_role("combobox", name="Tool", exact=True).select_option("current_time")
    is_saved(page)
    page.get_by_role("button", name="Run from here").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(node_box(page, "Result").locator(".state.is-done")).to_be_visible()
    expect(node_box(page, "Greet").locator(".state")).to_have_text("Given")
    node_box(page, "Result").click()
    expect(page.get_by_label("Output", exact=True)).to_have_text("Hello Ada.")
    page.get_by_role("tab", name="Runs").click()
    expect(page.locator(".cv-runs li")).to_have_count(2)

    node_box(page, "Greet").click()
    page.get_by_role("button", name="Pin this output").click()
    expect(page.get_by_role("region", name="Pinned output")).to_contain_text("Hello Ada.")
    is_saved(page)
    assert saved(page, agent)["nodes"][1]["pin"] == {"output": "Hello Ada."}
    assert faults_of(page) == []


def test_a_run_that_asks_a_person_is_answered_from_the_canvas(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    nodes = [
        node("start", "trigger"),
        node("ok", "approval", 300, name="Go on?", message="Shall I?"),
        node("end", "output", 600, name="Result", value="went on"),
    ]
    draw(page, agent, nodes, [edge("start", "ok"), edge("ok", "end")])
    open_canvas(page, agent)
    node_box(page, "Go on?").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.get_by_role("textbox", name="Input").press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(node_box(page, "Go on?").locator(".state")).to_contain_text("Needs approval")
    node_box(page, "Go on?").click()
    page.get_by_role("button", name="Approve").click()
    expect(node_box(page, "Result").locator(".state.is-done")).to_be_visible()


def test_two_people_work_on_one_canvas_and_neither_loses_a_change(
    open_window: OpenChat, complaints: list[str]
):
    first = open_window("/agents/")
    agent = new_agent(first)
    nodes = [
        node("start", "trigger", name="Begin"),
        node("ask", "agent", 300, name="Ask", prompt="say hello"),
    ]
    draw(first, agent, nodes, [edge("start", "ask")])
    open_canvas(first, agent)
    second = open_canvas(open_window("/agents/"), agent)
    expect(first.locator(".cv-peers")).to_be_visible()
    node_box(second, "Ask").click()
    expect(node_box(first, "Ask").locator(".cv-node-peer")).to_be_visible()

    # Both save on the same revision: the second is refused, merges and saves again.
    second.route(
        "**/canvas/",
        lambda route: held.append(route) if route.request.method == "PUT" else route.continue_(),
    )
    held: list = []
    second.get_by_role("textbox", name="Message").fill("say second")
    second.wait_for_function("document.querySelector('.cv-saved').textContent === 'Saving…'")
    while not held:
        second.wait_for_timeout(100)
    node_box(first, "Begin").click()
    first.get_by_role("textbox", name="Name").fill("Renamed by the first")
    expect(first.locator(".cv-saved")).to_have_text("Saved · r2")
    held[0].continue_()
    second.unroute("**/canvas/")
    expect(node_box(second, "Renamed by the first")).to_be_visible()
    is_saved(second)
    expect(second.get_by_role("textbox", name="Message")).to_have_value("say second")
    expect(node_box(first, "say second")).to_be_visible()
    drawn = saved(first, agent)
    assert [one["name"] for one in drawn["nodes"]] == ["Renamed by the first", "Ask"]
    assert drawn["nodes"][1]["config"] == {"prompt": "say second"}

    # What the first undoes leaves the change of the second alone.
    first.get_by_role("button", name="Undo: Rename").click()
    expect(node_box(second, "Begin")).to_be_visible()
    assert saved(first, agent)["nodes"][1]["config"] == {"prompt": "say second"}
    second.goto("/agents/")
    expect(first.locator(".cv-peers")).to_have_count(0)
    # The browser reports the refused save.
    assert all("409" in one for one in complaints)
    complaints.clear()


def test_what_the_builder_draws_appears_on_the_open_canvas(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    page.goto(f"/agents/{agent}/build/")
    page.get_by_role("link", name="Canvas").click()
    expect(page.locator("[data-island=canvas][data-mounted]")).to_be_visible()
    page.get_by_role("textbox", name="Message Builder").fill("Add a step that checks the invoice")
    page.locator(".build-chat [data-send]").click()
    expect(node_box(page, "Checks the invoice")).to_be_visible()
    page.get_by_role("link", name="Policy", exact=True).click()
    expect(page.locator(".react-flow")).to_have_count(0)
    page.get_by_role("link", name="Canvas").click()
    expect(node_box(page, "Checks the invoice")).to_be_visible()
    assert faults_of(page) == []


def test_an_old_revision_is_compared_and_restored(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    draw(page, agent, [node("start", "trigger", name="First")], [])
    draw(page, agent, [node("start", "trigger", name="Second"), node("end", "output", 300)], [], 1)
    open_canvas(page, agent)
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("tab", name="History").click()
    page.get_by_role("button", name="r1").click()
    expect(page.locator(".cv-diff")).to_contain_text("Added Output")
    expect(page.locator(".cv-diff")).to_contain_text("First")
    page.get_by_role("button", name="Restore this revision").click()
    expect(node_box(page, "First")).to_be_visible()
    expect(page.locator(".cv-saved")).to_have_text("Saved · r3")
    assert faults_of(page) == []


def test_hostile_words_stay_text_and_the_picture_needs_no_script(open_window: OpenChat):
    page = open_window("/agents/")
    agent = new_agent(page)
    nasty = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
    nodes = [node("start", "trigger", name=nasty[:120]), node("note", "note", 0, 200, text=nasty)]
    draw(page, agent, nodes, [])
    open_canvas(page, agent)
    expect(page.locator(".cv-note")).to_have_text(nasty)
    page.get_by_role("tab", name="Problems").click()
    assert page.locator(".cv img").count() == 0
    bare = open_window(f"/agents/{agent}/canvas/", java_script_enabled=False)
    expect(bare.locator(".build-canvas")).to_be_visible()
