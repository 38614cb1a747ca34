"""Tests of the page for credits, budgets and prices: permissions, and one effect per form."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.definitions import create_agent
from agents.model_catalog import set_price
from agents.models import Agent
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import SessionEvent
from sessions_app.sessions import get_or_create_session
from tenants.billing.credits import current_spend, get_balance, set_budget
from tenants.models import CreditEntry, Price, Purse, User
from tests.conftest import add_member
from tests.factories import make
from tests.tenants.pages.test_usage import spend

D = Decimal
PAGE = "/settings/budgets/"


def client_of(workspace, role: str) -> Client:
    client = Client()
    client.force_login(add_member(workspace, role))
    return client


def grant(**changed: str) -> dict[str, str]:
    return {"amount": "25", "kind": "grant", "note": "Invoice 7", "once": str(uuid4()), **changed}


def test_the_operator_grants_credits_once_however_often_the_form_is_sent(
    browser_client, operator, workspace
):
    form = grant()
    for _ in range(2):
        assert browser_client.post(f"{PAGE}credits/", form).status_code == 302
    page = browser_client.get(PAGE).text

    assert get_balance(workspace.pk).balance == D(35)
    assert CreditEntry.objects.filter(note="Invoice 7").count() == 1
    assert "$35.00" in page
    assert "Invoice 7" in page


def test_a_form_of_another_workspace_is_refused(
    browser_client, operator, workspace, stranger, foreign_workspace
):
    form, other = grant(), Client()
    stranger.is_staff = True
    stranger.save()
    other.force_login(stranger)
    browser_client.post(f"{PAGE}credits/", form)

    assert other.post(f"{PAGE}credits/", form).status_code == 404
    assert get_balance(foreign_workspace.pk).balance == D(10)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"amount": "-5"}, "A grant adds credits"),
        ({"amount": "0"}, "not 0"),
        ({"amount": "many"}, "Enter a number"),
    ],
)
def test_an_invalid_amount_is_explained(browser_client, operator, workspace, changed, said):
    answer = browser_client.post(f"{PAGE}credits/", grant(**changed))

    assert answer.status_code == 400
    assert said in answer.text
    assert get_balance(workspace.pk).balance == D(10)


def test_an_adjustment_can_remove_credits(browser_client, operator, workspace):
    browser_client.post(f"{PAGE}credits/", grant(amount="-4", kind="adjustment"))

    assert get_balance(workspace.pk).balance == D(6)


@pytest.mark.parametrize("role", ["viewer", "builder", "admin"])
def test_staff_who_are_not_owners_cannot_change_credits(workspace, role):
    User.objects.filter(pk=add_member(workspace, role, "staff@example.com").pk).update(
        is_staff=True
    )
    staff = Client()
    staff.force_login(User.objects.get(email="staff@example.com"))

    assert staff.post(f"{PAGE}credits/", grant()).status_code == 403


def test_an_owner_cannot_grant_credits_to_their_own_workspace(browser_client, workspace):
    page = browser_client.get(PAGE).text

    assert 'action="/settings/budgets/credits/"' not in page
    assert "Only the operator of this installation can add credits" in page
    assert browser_client.post(f"{PAGE}credits/", grant()).status_code == 403
    assert get_balance(workspace.pk).balance == D(10)


@pytest.mark.parametrize("role", ["viewer", "builder", "admin"])
def test_a_member_cannot_change_credits(workspace, role):
    client = client_of(workspace, role)
    page = client.get(PAGE)

    assert page.status_code == 200
    assert 'action="/settings/budgets/credits/"' not in page.text
    assert client.post(f"{PAGE}credits/", grant()).status_code == 403
    assert get_balance(workspace.pk).balance == D(10)


def test_an_admin_sets_raises_and_removes_a_budget(workspace, session):
    client = client_of(workspace, "admin")
    form = {"owner": f"agent:{session.agent_id}", "ceiling": "2.50", "period": "month"}
    client.post(f"{PAGE}set/", form)
    budget = Purse.objects.get(kind="agent")
    assert (budget.ceiling, budget.period) == (D("2.5"), "month")

    assert "$0.00 of $2.50 this month" in client.get(PAGE).text
    client.post(f"{PAGE}{budget.pk}/", {"ceiling": "7", "period": "ever"})
    budget.refresh_from_db()
    assert (budget.ceiling, budget.period) == (D(7), "ever")

    client.post(f"{PAGE}{budget.pk}/remove/")
    assert not Purse.objects.filter(pk=budget.pk).exists()


def test_a_budget_shows_its_spending_and_that_it_is_used_up(browser_client, workspace, session):
    set_budget(workspace_id=workspace.pk, kind="session", owner_id=session.pk, ceiling=D(1))
    spend(session, "1")
    page = browser_client.get(PAGE).text

    assert "$1.00 of $1.00 in total" in page
    assert "limit reached" in page


def test_spending_of_another_month_does_not_count(workspace, session):
    purse = set_budget(
        workspace_id=workspace.pk, kind="session", owner_id=session.pk, ceiling=D(1), period="month"
    )
    spend(session, "0.5")
    purse.refresh_from_db()
    later = purse.since.replace(year=purse.since.year + 1)

    assert current_spend(purse) == D("0.5")
    assert current_spend(purse, later) == 0


@pytest.mark.parametrize("role", ["viewer", "builder"])
def test_a_member_below_admin_can_only_read(workspace, session, role):
    purse = set_budget(workspace_id=workspace.pk, kind="session", owner_id=session.pk, ceiling=D(1))
    client = client_of(workspace, role)

    assert "<form" not in client.get(PAGE).text.split('class="settings"')[1].split("</main>")[0]
    assert client.post(f"{PAGE}set/", {}).status_code == 403
    assert client.post(f"{PAGE}{purse.pk}/", {"ceiling": "9"}).status_code == 403
    assert client.post(f"{PAGE}{purse.pk}/remove/").status_code == 403
    assert client.post(f"{PAGE}prices/", {}).status_code == 403


def test_an_agent_of_another_workspace_cannot_be_given_a_budget(
    browser_client, workspace, foreign_workspace
):
    foreign = make(Agent, foreign_workspace)
    form = {"owner": f"agent:{foreign.pk}", "ceiling": "1", "period": "ever"}

    assert browser_client.post(f"{PAGE}set/", form).status_code == 400
    assert not Purse.objects.filter(kind="agent").exists()


def test_a_custom_price_is_set_and_removed(browser_client, workspace):
    form = {"provider": "openai", "model": "llama", "input_price": "0.2", "output_price": "0.4"}
    browser_client.post(f"{PAGE}prices/", form)
    price = Price.objects.get()
    assert "openai/llama" in browser_client.get(PAGE).text

    browser_client.post(f"{PAGE}prices/{price.pk}/remove/")
    assert not Price.objects.exists()


def test_the_ledger_is_paged_and_filtered(browser_client, session):
    for _ in range(55):
        spend(session, "0.01")
    first = browser_client.get(f"{PAGE}ledger/").text
    second = browser_client.get(f"{PAGE}ledger/?page=2").text
    charges = browser_client.get(f"{PAGE}ledger/?kind=grant").text

    assert first.count("gpt-5") == 50
    assert "Starting credits" in second
    assert "gpt-5" not in charges


def test_more_rows_need_no_more_queries(browser_client, workspace, owner, agent):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            browser_client.get(PAGE)
        return len(seen)

    def fill(number: int) -> None:
        fields = {"name": f"More {number}", "provider": "demo", "model": "demo"}
        more = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
        session, _ = get_or_create_session(agent=more)
        for kind, owned in (("agent", more.pk), ("session", session.pk), ("member", owner.pk)):
            set_budget(workspace_id=workspace.pk, kind=kind, owner_id=owned, ceiling=D(1))
        spend(session, "0.01", user_id=owner.pk)
        set_price(
            workspace.pk, provider="demo", model=f"m{number}", input_price=D(1), output_price=D(1)
        )

    fill(0)
    browser_client.get(PAGE)
    before = queries()
    for number in range(1, 5):
        fill(number)

    assert queries() == before


@pytest.mark.parametrize(
    ("code", "words"),
    [("budget_reached", "Raise the budget"), ("out_of_credits", "Add credits")],
)
def test_a_run_without_money_links_to_the_remedy(browser_client, session, code, words):
    event = NewEvent(
        type=SessionEvent.Type.ERROR,
        payload={"code": code, "message": "No money.", "retryable": True},
    )
    append_events(session.pk, [event])
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert f'href="{PAGE}">{words}</a>' in page


def test_the_form_preselects_the_owner_named_in_the_address(browser_client, session):
    for owner in (f"session:{session.pk}", f"agent:{session.agent_id}"):
        page = browser_client.get(f"{PAGE}?for={owner}").text
        assert f'value="{owner}" selected' in page
    assert browser_client.get(f"{PAGE}?for=session:x").status_code == 200
