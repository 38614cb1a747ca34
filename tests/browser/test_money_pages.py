"""Tests of usage, budgets, schedules, environments and custom tools in a real browser."""

from __future__ import annotations

from decimal import Decimal

import pytest
from playwright.sync_api import Page, expect

from agents.definitions import create_agent
from agents.environments import default_environment
from sessions_app.models import Schedule, Session
from sessions_app.sessions import get_or_create_session
from tenants.billing.credits import get_balance, set_budget
from tenants.billing.spending import Charge, PlannedCall, Spender, reserve, settle
from tenants.models import Purse, User, Workspace
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.islands import press
from tools_app.models import CustomTool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def session_with_costs(workspace: Workspace, owner: User) -> Session:
    """Create a session with costs, whose agent's budget is nearly spent."""
    fields = {"name": "Bookkeeper", "provider": "demo", "model": "demo"}
    agent = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
    session, _ = get_or_create_session(agent=agent, title="Invoices")
    who = Spender(workspace_id=workspace.pk, agent_id=agent.pk, session_id=session.pk)
    set_budget(workspace_id=workspace.pk, kind="agent", owner_id=agent.pk, ceiling=Decimal(2))
    call = PlannedCall(spender=who, provider="openai", model="gpt-5", worst_case=Decimal("1.8"))
    reserve(call)
    settle(Charge(call_id=call.id, outcome="settled", cost=Decimal("1.8"), input_tokens=900))
    default_environment(workspace.pk)
    return session


def test_a_person_finds_the_session_that_cost_most_and_sets_a_budget(
    owner_page: Page, session_with_costs: Session
):
    page = owner_page
    press(page, "g", "n")
    expect(page.get_by_role("img", name="Spend per day")).to_be_visible()
    page.get_by_role("link", name="Sessions", exact=True).last.click()
    page.get_by_label("Set a budget for Invoices").click()
    expect(page.get_by_label("For", exact=True)).to_have_value(f"session:{session_with_costs.pk}")
    page.get_by_label("Dollars").last.fill("3")
    page.get_by_role("button", name="Set budget").first.click()

    expect(page.get_by_text("Invoices may spend $3.00.")).to_be_visible()
    page.get_by_label("Edit the budget of Bookkeeper").click()
    page.get_by_role("button", name="Remove budget").locator("visible=true").click()
    expect(page.get_by_text("Budget removed.")).to_be_visible()
    assert not Purse.objects.filter(kind="agent").exists()


def test_the_operator_can_add_credits(operator: User, owner_page: Page, workspace: Workspace):
    page = owner_page
    page.goto("/settings/budgets/")
    page.get_by_label("Dollars").first.fill("25")
    page.get_by_label("Note").fill("Invoice 7")
    page.get_by_role("button", name="Add", exact=True).click()

    expect(page.get_by_text("$25.00 added to the credits.")).to_be_visible()
    expect(page.get_by_role("row", name="Invoice 7")).to_be_visible()
    assert get_balance(workspace.pk).balance == 35


def test_a_schedule_is_previewed_and_created_in_the_viewers_time_zone(
    open_context: OpenContext, owner: User, session_with_costs: Session
):
    page = sign_in(open_context(timezone_id="Asia/Tokyo").new_page(), owner)
    page.goto("/schedules/")
    page.get_by_role("link", name="New schedule").first.click()
    page.get_by_label("Name").fill("Morning report")
    page.get_by_label("Message").fill("Write the report.")
    page.get_by_text("By the calendar").click()
    page.get_by_role("textbox", name="Cron expression").fill("30 7 * * 1-5")
    preview = page.locator("[data-preview]")
    expect(preview).to_contain_text("At 07:30 on Monday through Friday (Asia/Tokyo)")
    expect(preview.locator("time")).to_have_count(3)
    expect(preview.locator("time").first).to_contain_text("07:30")
    page.get_by_role("button", name="Create schedule").click()

    expect(page.get_by_role("heading", name="Morning report")).to_be_visible()
    expect(page.locator(".schedule-facts time")).to_contain_text("07:30")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("Morning report was sent.")).to_be_visible()
    expect(page.get_by_role("row", name="Sent").get_by_role("link")).to_be_visible()
    made = Schedule.objects.get()
    assert (made.timezone, made.next_at.hour, made.next_at.minute) == ("Asia/Tokyo", 22, 30)


def test_a_schedule_can_be_previewed_without_javascript(
    open_context: OpenContext, owner: User, session_with_costs: Session
):
    page = sign_in(open_context(java_script_enabled=False).new_page(), owner)
    page.goto("/schedules/new/")
    page.get_by_label("Name").fill("Look")
    page.get_by_label("Message").fill("Look around.")
    page.get_by_label("Every", exact=True).fill("15")
    page.get_by_label("Unit").select_option("minutes")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Every 15 minutes")).to_be_visible()
    page.get_by_role("button", name="Create schedule").click()

    expect(page.get_by_role("heading", name="Look")).to_be_visible()


def test_an_invalid_schema_is_explained_and_can_be_corrected(owner_page: Page):
    page = owner_page
    page.goto("/settings/tools/new/")
    page.get_by_label("Name").fill("look_up_order")
    page.get_by_label("Description").fill("Finds an order.")
    page.get_by_label("Arguments").fill('{"type": "object",')
    page.get_by_role("button", name="Create tool").click()
    expect(page.get_by_text("This is not valid JSON")).to_be_visible()
    page.get_by_label("Arguments").fill('{"type": "object"}')
    page.get_by_role("button", name="Create tool").click()

    expect(page.get_by_text("look_up_order was created.")).to_be_visible()
    assert CustomTool.objects.get().name == "look_up_order"


def test_hosts_are_shown_only_for_the_network_that_needs_them(owner_page: Page):
    page = owner_page
    page.goto("/settings/environments/new/")
    expect(page.get_by_label("Hosts", exact=True)).to_be_hidden()
    page.get_by_text("Allowed hosts").click()
    page.get_by_label("Hosts", exact=True).fill("packages.test")
    page.get_by_label("Name", exact=True).fill("builds")
    page.get_by_role("button", name="Create environment").click()

    expect(page.get_by_text("reaches packages.test")).to_be_visible()
