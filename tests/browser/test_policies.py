"""Tests of the policy editor in a browser: preview, review, warnings and saving."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from agents.models import Agent
from tests import factories
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.looks import PHONE
from tests.conftest import add_member
from tools_app.policy.effective import effective_policy
from tools_app.policy.storage import PolicyTarget, find_target, save_policy, stored_policy


@pytest.fixture
def agent(transactional_db: None, workspace) -> Agent:
    return factories.agent(workspace)


@pytest.fixture
def target(workspace, agent: Agent) -> PolicyTarget:
    return find_target(workspace.pk, "agent", agent.pk)


def row(page: Page, tool: str):
    return page.locator(f"[data-tool={tool}]")


def test_a_choice_shows_its_effect_and_applies_to_the_next_run_once_saved(
    owner_page: Page, agent: Agent, target: PolicyTarget
):
    page = owner_page
    page.goto(f"/policies/agent/{agent.pk}/")
    assert faults_of(page) == []
    row(page, "read").get_by_role("radio", name="Deny").check()
    expect(row(page, "read").locator("[data-verdict]")).to_have_text("deny")
    expect(page.get_by_text("1 unsaved change.")).to_be_visible()
    assert stored_policy(target).revision == 0
    page.get_by_role("button", name="Review changes").click()
    review = page.locator(".review")
    expect(review).to_contain_text("+ deny read")
    assert faults_of(page) == []
    review.get_by_role("button", name="Save").click()

    expect(page.get_by_text("Saved as revision 1. It applies from the next run.")).to_be_visible()
    assert effective_policy(agent.current)["read"].decision == "deny"
    expect(page.locator(".policy-past")).to_contain_text("owner@example.com")


def test_allowing_a_risky_tool_needs_confirmation(
    owner_page: Page, agent: Agent, target: PolicyTarget
):
    page = owner_page
    page.goto(f"/policies/agent/{agent.pk}/")
    row(page, "exec").get_by_role("radio", name="Allow").check()
    expect(page.get_by_text("Lets exec run without approval.")).to_be_visible()
    page.get_by_role("button", name="Review changes").click()
    expect(page.get_by_role("alert")).to_contain_text("This lets exec run without approval.")
    save = page.locator(".review").get_by_role("button", name="Save")
    save.click()
    assert stored_policy(target).revision == 0
    page.get_by_label("I understand and want this").check()
    save.click()
    expect(page.get_by_text("Saved as revision 1.")).to_be_visible()

    page.get_by_role("button", name="Revert to no rules").click()
    expect(page.get_by_role("heading", name="Revert to revision 0")).to_be_visible()
    page.locator(".review").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as revision 2.")).to_be_visible()
    assert stored_policy(target).approved_tools == []


def test_a_call_can_be_simulated_with_unsaved_rules(owner_page: Page, agent: Agent):
    page = owner_page
    page.goto(f"/policies/agent/{agent.pk}/")
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Decision").last.select_option("deny")
    page.get_by_label("New rule").fill("exec(rm *)")
    page.get_by_label("Tool", exact=True).fill("exec")
    page.get_by_label("Arguments").fill('{"command": "ls && rm -rf /"}')
    verdict = page.locator("[data-call]")
    expect(verdict).to_contain_text("Denied by the agent: exec(rm *).")
    page.get_by_label("Arguments").fill('{"command": "ls"}')
    expect(verdict).to_contain_text("Asks first by default.")
    page.get_by_label("Arguments").fill("{nonsense")
    expect(verdict).to_contain_text("JSON object")
    page.get_by_role("button", name="Remove rule").click()
    expect(page.get_by_text("No changes.")).to_be_visible()


def test_an_agents_page_shows_the_workspace_ceiling(owner_page: Page, workspace, agent: Agent):
    save_policy(find_target(workspace.pk, "workspace"), {"denied_tools": ["group:web"]})
    page = owner_page
    page.goto("/policies/")
    page.locator(".target-menu summary").click()
    page.locator(".target-list").get_by_role("link", name=str(agent)).click()
    why = row(page, "web_fetch").locator("[data-why]")

    expect(why).to_have_text("Denied by the workspace ceiling: group:web.")
    row(page, "web_fetch").get_by_role("radio", name="Allow").check()
    expect(page.get_by_text("1 unsaved change.")).to_be_visible()
    expect(why).to_have_text("Denied by the workspace ceiling: group:web.")


def test_two_tabs_do_not_overwrite_each_other(owner_page: Page, agent: Agent, target: PolicyTarget):
    first = owner_page
    first.goto(f"/policies/agent/{agent.pk}/")
    second = first.context.new_page()
    second.goto(f"/policies/agent/{agent.pk}/")
    for page, tool in ((first, "read"), (second, "write")):
        row(page, tool).get_by_role("radio", name="Deny").check()
        page.get_by_role("button", name="Review changes").click()
    first.locator(".review").get_by_role("button", name="Save").click()
    expect(first.get_by_text("Saved as revision 1.")).to_be_visible()
    second.locator(".review").get_by_role("button", name="Save").click()

    expect(second.get_by_text("The policy was changed meanwhile")).to_be_visible()
    assert stored_policy(target).denied_tools == ["read"]


def test_a_viewer_can_see_but_not_change_a_policy(
    open_context: OpenContext, workspace, agent: Agent
):
    page = open_context().new_page()
    sign_in(page, add_member(workspace, "viewer"))
    page.goto(f"/policies/agent/{agent.pk}/")

    expect(row(page, "exec").get_by_role("radio", name="Allow")).to_be_disabled()
    expect(page.get_by_role("button", name="Review changes")).to_have_count(0)
    page.get_by_label("Tool", exact=True).fill("exec")
    expect(page.locator("[data-call]")).to_contain_text("Asks first by default.")
    assert faults_of(page) == []


def test_the_policy_pages_work_on_a_phone_in_the_dark_theme(
    open_context: OpenContext, owner, workspace, agent: Agent
):
    page = open_context(viewport=PHONE, color_scheme="dark", has_touch=True).new_page()
    sign_in(page, owner)
    for path in ("/policies/", f"/policies/agent/{agent.pk}/"):
        page.goto(path)
        assert faults_of(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_policy_editor_works_without_javascript(
    open_context: OpenContext, owner, workspace, agent: Agent, target: PolicyTarget
):
    page = open_context(java_script_enabled=False).new_page()
    sign_in(page, owner)
    page.goto(f"/policies/agent/{agent.pk}/")
    row(page, "read").get_by_role("radio", name="Ask").check()
    page.get_by_label("New rule").first.fill("group:web")
    page.get_by_role("button", name="Review changes").click()
    page.locator(".review").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as revision 1.")).to_be_visible()

    assert set(stored_policy(target).ask_tools) == {"read", "group:web"}
