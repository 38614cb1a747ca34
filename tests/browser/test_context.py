"""Tests of the context panel in a browser: updates, compaction and undo."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.axe import faults_of
from tests.browser.talking import begin, rests, say
from tests.browser.whole_stack import OpenChat


def test_a_context_can_be_viewed_and_compacted_and_the_compaction_undone(open_window: OpenChat):
    page = begin(open_window(), "say the plan is in notes/plan.md")
    for nth in range(4):
        rests(page)
        say(page, f"say step {nth} of src/part{nth}.py " + "and more " * 30)
        expect(page.locator(".line.is-agent .prose")).to_have_count(nth + 2)
    rests(page)
    panel = page.locator("[data-context]")
    expect(panel.locator(".context-sum")).to_contain_text("tokens")
    panel.locator("summary", has_text="Messages").click()
    expect(panel.get_by_role("region", name="Messages")).to_contain_text("step 3")
    assert faults_of(page) == []

    panel.get_by_role("button", name="Compact now").click()
    line = page.locator(".line.is-compaction")
    expect(line).to_contain_text("Context compacted")
    expect(panel.locator("summary", has_text="Summary of earlier messages")).to_be_visible()
    line.get_by_role("button", name="View summary").click()
    expect(line.locator(".compaction-summary")).to_contain_text("notes/plan.md")
    assert faults_of(page) == []

    line.get_by_role("button", name="Undo").click()
    expect(line).to_contain_text("undone")
    expect(page.locator(".line.is-note")).to_contain_text("Compaction undone")
    expect(panel.locator("summary", has_text="Summary of earlier")).to_have_count(0)
    say(page, "say still here")
    expect(page.locator(".line.is-agent .prose").last).to_have_text("still here")
    page.goto(f"{page.url}context/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Context")
    assert faults_of(page) == []
