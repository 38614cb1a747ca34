"""Tests of credits, budgets, prices and usage over REST."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client

from core.ids import uuid7
from tenants.billing.spending import Charge, PlannedCall, Spender, reserve, settle
from tenants.models import Purse, User, Workspace
from tests.conftest import add_member, key_client

pytestmark = pytest.mark.django_db


def spend(workspace: Workspace, cost: str, model: str = "m", user: User | None = None) -> None:
    planned = PlannedCall(
        spender=Spender(workspace_id=workspace.pk, user_id=user.pk if user else None),
        provider="openai",
        model=model,
        worst_case=Decimal(1),
    )
    reserve(planned)
    settle(
        Charge(
            call_id=planned.id,
            outcome="settled",
            cost=Decimal(cost),
            input_tokens=5,
            output_tokens=2,
            cached_tokens=4,
        )
    )


def test_credits_show_the_balance_and_the_newest_entries(api, workspace):
    spend(workspace, "0.25")
    answer = api.get("/api/v1/credits/").json()
    assert (answer["currency"], Decimal(answer["balance"])) == ("USD", Decimal("9.75"))
    assert [entry["kind"] for entry in answer["entries"]] == ["charge", "grant"]
    assert len(api.get("/api/v1/credits/entries/?kind=charge").json()["results"]) == 1


def test_an_owner_cannot_add_credits_to_their_own_workspace(workspace, browser_client: Client):
    body = {"amount": "1000000", "kind": "grant"}
    refused = browser_client.post("/api/v1/credits/", body, content_type="application/json")

    assert (refused.status_code, refused.json()["code"]) == (403, "staff_only")
    assert Decimal(browser_client.get("/api/v1/credits/").json()["balance"]) == 10


def test_only_an_owner_who_is_staff_can_add_credits(workspace, operator, browser_client: Client):
    admin_key = key_client(workspace, "admin")
    body = {"amount": "5", "kind": "grant"}
    assert admin_key.post("/api/v1/credits/", body, format="json").status_code == 403
    answer = browser_client.post("/api/v1/credits/", body, content_type="application/json")
    assert answer.status_code == 201
    assert Decimal(admin_key.get("/api/v1/credits/").json()["balance"]) == 15


@pytest.mark.parametrize("amount", ["0", "-3", "1e99", "ten"])
def test_an_invalid_amount_is_refused(browser_client: Client, operator, amount):
    body = {"amount": amount, "kind": "grant"}
    answer = browser_client.post("/api/v1/credits/", body, content_type="application/json")
    assert answer.status_code == 400


def test_a_budget_can_be_set_changed_and_removed(api, workspace):
    agent = api.post("/api/v1/agents/", {"name": "A"}, format="json").json()
    body = {"kind": "agent", "owner_id": agent["id"], "limit": "2.5", "period": "day"}
    made = api.post("/api/v1/budgets/", body, format="json")
    assert made.status_code == 201
    pk = made.json()["id"]
    changed = api.patch(f"/api/v1/budgets/{pk}/", {"limit": "4"}, format="json").json()
    assert (Decimal(changed["limit"]), changed["period"]) == (Decimal(4), "day")
    assert len(api.get("/api/v1/budgets/").json()["results"]) == 1
    assert api.delete(f"/api/v1/budgets/{pk}/").status_code == 204


def test_a_budget_for_an_agent_of_another_workspace_is_refused(api, foreign_api):
    foreign = foreign_api.post("/api/v1/agents/", {"name": "A"}, format="json").json()
    body = {"kind": "agent", "owner_id": foreign["id"], "limit": "1"}
    assert api.post("/api/v1/budgets/", body, format="json").status_code == 404


def test_the_workspace_purse_cannot_be_deleted_as_a_budget(api, workspace):
    own = Purse.objects.get(workspace=workspace, kind="workspace")
    assert api.delete(f"/api/v1/budgets/{own.pk}/").status_code == 404


def test_a_key_with_run_scope_cannot_set_budgets(workspace):
    body = {"kind": "member", "owner_id": str(uuid7()), "limit": "1"}
    assert (
        key_client(workspace, "run").post("/api/v1/budgets/", body, format="json").status_code
        == 403
    )


def test_a_price_can_be_set_replaced_and_removed(api):
    body = {"provider": "openai", "model": "mine", "input_price": "1", "output_price": "2"}
    pk = api.post("/api/v1/prices/", body, format="json").json()["id"]
    again = api.post("/api/v1/prices/", {**body, "output_price": "3"}, format="json").json()
    assert (again["id"], Decimal(again["output_price"])) == (pk, Decimal(3))
    assert api.delete(f"/api/v1/prices/{pk}/").status_code == 204
    below = api.post("/api/v1/prices/", {**body, "input_price": "-1"}, format="json")
    assert (below.status_code, below.json()["errors"][0]["field"]) == (400, "input_price")


def test_usage_is_grouped_by_model_and_by_member(api, workspace):
    person = add_member(workspace, "builder")
    spend(workspace, "0.2", "big", person)
    spend(workspace, "0.1", "small")
    answer = api.get("/api/v1/usage/?by=model").json()
    assert [line["name"] for line in answer["results"]] == ["openai/big", "openai/small"]
    assert Decimal(answer["totals"]["cost"]) == Decimal("0.3")
    by_member = api.get("/api/v1/usage/?by=member").json()["results"]
    assert {line["name"] for line in by_member} == {person.email, "none"}


@pytest.mark.parametrize("by", ["day", "member", "agent", "model", "key", "session"])
def test_usage_takes_few_queries_for_every_grouping(
    api, workspace, by, django_assert_max_num_queries
):
    for nth in range(5):
        spend(workspace, "0.1", f"m{nth}")
    with django_assert_max_num_queries(7):
        assert api.get(f"/api/v1/usage/?by={by}").status_code == 200


def test_usage_is_paged_by_links_and_days_are_not(api, workspace):
    for nth in range(5):
        spend(workspace, f"0.{nth + 1}", f"m{nth}")
    page = api.get("/api/v1/usage/?by=model&limit=2").json()
    names = [line["name"] for line in page["results"]]
    assert page["previous"] is None
    while page["next"]:
        page = api.get(page["next"]).json()
        names += [line["name"] for line in page["results"]]

    assert names == [f"openai/m{nth}" for nth in (4, 3, 2, 1, 0)]
    assert Decimal(page["totals"]["cost"]) == Decimal("1.5"), "the totals are those of all pages"
    assert api.get(page["previous"]).json()["results"][0]["name"] == "openai/m2"
    assert api.get("/api/v1/usage/?by=day&limit=1").json()["next"] is None
    assert api.get("/api/v1/usage/?by=model&cursor=x").status_code == 400


def test_usage_says_how_many_tokens_were_cached(api, workspace, browser_client):
    for _ in range(2):
        spend(workspace, "0.1")
    told = api.get("/api/v1/usage/?by=model").json()
    assert told["totals"]["cached_tokens"] == 8
    assert [line["cached_tokens"] for line in told["results"]] == [8]
    page = browser_client.get("/usage/?by=model").content.decode()
    assert "80 % of the input cached" in page
    assert '<td class="is-muted is-number" data-label="Cached">80 %</td>' in page


def test_usage_is_exported_as_csv_without_formulas(api, workspace):
    planned = PlannedCall(
        spender=Spender(workspace_id=workspace.pk),
        provider="=cmd",
        model="m",
        worst_case=Decimal(0),
    )
    reserve(planned)
    text = api.get("/api/v1/usage/?by=model&as=csv").content.decode()
    assert text.splitlines()[0] == "model,name,calls,input_tokens,output_tokens,cached_tokens,cost"
    assert ",'=cmd/m," in text
    assert text.splitlines()[1].endswith(",0.00000000"), "no exponent notation"


@pytest.mark.parametrize("query", ["by=planet", "from=yesterday", "from=2026-02-01&to=2026-01-01"])
def test_an_invalid_usage_query_is_refused(api, query):
    assert api.get(f"/api/v1/usage/?{query}").status_code == 400
