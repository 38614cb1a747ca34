"""Tests of purses: no reservation exceeds a purse, every call is settled once, the ledger adds up."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, connections, transaction
from django.db.models import Sum

from core.exceptions import Invalid
from core.ids import uuid7
from orchestrator.workspaces import erase_workspace
from tenants.billing.credits import add_credits, claim_low_purses, get_balance, set_budget
from tenants.billing.spending import Charge, PlannedCall, Spender, check_purses, reserve, settle
from tenants.exceptions import BudgetReached, OutOfCredits
from tenants.models import (
    CreditEntry,
    InboxItem,
    ModelCall,
    Purse,
    WebhookDelivery,
    Workspace,
)
from tenants.notifications.inbox import tell_low_credits
from tenants.notifications.webhooks import add_webhook

pytestmark = pytest.mark.django_db
D = Decimal


def plan_call(workspace: Workspace, worst: str = "1", **spender: Any) -> PlannedCall:
    return PlannedCall(
        spender=Spender(workspace_id=workspace.pk, **spender),
        provider="openai",
        model="m",
        worst_case=D(worst),
    )


def pay(planned: PlannedCall, cost: str, outcome: str = "settled") -> bool:
    return settle(Charge(call_id=planned.id, outcome=outcome, cost=D(cost), input_tokens=10))


def test_a_new_workspace_starts_with_credits(workspace: Workspace) -> None:
    assert get_balance(workspace.pk).balance == D(10)
    assert CreditEntry.objects.get(workspace=workspace).kind == "grant"


def test_a_call_reserves_its_worst_case_and_is_charged_its_actual_cost(
    workspace: Workspace,
) -> None:
    planned = plan_call(workspace, "4")
    reserve(planned)
    assert get_balance(workspace.pk).available == D(6)
    assert pay(planned, "1.5")
    after = get_balance(workspace.pk)
    assert (after.balance, after.reserved, after.debt) == (D("8.5"), D(0), D(0))
    assert ModelCall.objects.get(pk=planned.id).state == "settled"


def test_a_call_is_charged_once(workspace: Workspace) -> None:
    planned = plan_call(workspace)
    reserve(planned)
    assert pay(planned, "1")
    assert not pay(planned, "1")
    assert get_balance(workspace.pk).balance == D(9)


def test_a_call_cannot_reserve_more_than_is_available(workspace: Workspace) -> None:
    reserve(plan_call(workspace, "7"))
    with pytest.raises(OutOfCredits, match="may need"):
        reserve(plan_call(workspace, "4"))
    assert get_balance(workspace.pk).reserved == D(7)
    assert ModelCall.objects.filter(workspace=workspace).count() == 1


def test_the_database_refuses_a_reservation_beyond_the_purse(workspace: Workspace) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        Purse.objects.filter(workspace=workspace).update(reserved=D(11))


def test_an_overrun_becomes_a_debt_and_blocks_the_purse(workspace: Workspace) -> None:
    planned = plan_call(workspace, "9")
    reserve(planned)
    pay(planned, "12")
    after = get_balance(workspace.pk)
    assert (after.balance, after.debt) == (D(-2), D(3))
    with pytest.raises(OutOfCredits):
        reserve(plan_call(workspace, "0"))
    with pytest.raises(OutOfCredits):
        check_purses(workspace.pk, [])


def test_a_budget_stops_only_its_owner_and_can_be_raised(workspace: Workspace) -> None:
    agent, other = uuid7(), uuid7()
    set_budget(workspace_id=workspace.pk, kind="agent", owner_id=agent, ceiling=D(1))
    planned = plan_call(workspace, "1", agent_id=agent)
    reserve(planned)
    pay(planned, "1")
    with pytest.raises(BudgetReached, match="budget of this agent"):
        reserve(plan_call(workspace, "0.5", agent_id=agent))
    reserve(plan_call(workspace, "0.5", agent_id=other))
    set_budget(workspace_id=workspace.pk, kind="agent", owner_id=agent, ceiling=D(2))
    reserve(plan_call(workspace, "0.5", agent_id=agent))


def test_a_child_session_spends_from_its_parents_budget(workspace: Workspace) -> None:
    parent, child = uuid7(), uuid7()
    set_budget(workspace_id=workspace.pk, kind="session", owner_id=parent, ceiling=D(1))
    reserve(plan_call(workspace, "0.7", session_id=child, ancestors=(parent,)))
    with pytest.raises(BudgetReached):
        reserve(plan_call(workspace, "0.7", session_id=parent))


def test_a_daily_budget_starts_again_the_next_day(workspace: Workspace) -> None:
    key = uuid7()
    purse = set_budget(
        workspace_id=workspace.pk, kind="key", owner_id=key, ceiling=D(1), period="day"
    )
    planned = plan_call(workspace, "1", key_id=key)
    reserve(planned)
    pay(planned, "1")
    with pytest.raises(BudgetReached, match="for this day"):
        reserve(plan_call(workspace, "1", key_id=key))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE purses SET since = since - 1 WHERE id = %s", [purse.pk])
    reserve(plan_call(workspace, "1", key_id=key))


def test_a_budget_needs_a_positive_limit_and_a_known_kind(workspace: Workspace) -> None:
    with pytest.raises(Invalid):
        set_budget(workspace_id=workspace.pk, kind="agent", owner_id=uuid7(), ceiling=D(-1))
    with pytest.raises(Invalid):
        set_budget(workspace_id=workspace.pk, kind="planet", owner_id=uuid7(), ceiling=D(1))


def test_the_ledger_refuses_changes(workspace: Workspace) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        CreditEntry.objects.filter(workspace=workspace).update(amount=1000)
    with pytest.raises(DatabaseError), transaction.atomic():
        CreditEntry.objects.filter(workspace=workspace).delete()


def test_the_balance_is_the_sum_of_the_ledger(workspace: Workspace) -> None:
    for cost in ("0.1", "0.25", "0"):
        planned = plan_call(workspace)
        reserve(planned)
        pay(planned, cost)
    add_credits(workspace.pk, D("-1"), kind="adjustment", note="A refund taken back")
    total = CreditEntry.objects.filter(workspace=workspace).aggregate(all=Sum("amount"))["all"]
    assert total == get_balance(workspace.pk).balance == D("8.65")


def test_a_low_purse_is_claimed_once_until_it_is_refilled(workspace: Workspace) -> None:
    assert claim_low_purses() == []
    add_credits(workspace.pk, D("-9.5"), kind="adjustment")
    assert [p.workspace_id for p in claim_low_purses()] == [workspace.pk]
    assert claim_low_purses() == []
    add_credits(workspace.pk, D("5"), kind="grant")
    add_credits(workspace.pk, D("-5"), kind="adjustment")
    assert len(claim_low_purses()) == 1


def test_a_workspace_is_erased_with_its_ledger(workspace: Workspace) -> None:
    planned = plan_call(workspace)
    reserve(planned)
    pay(planned, "1")
    erase_workspace(workspace)
    assert not CreditEntry.objects.exists()
    assert not ModelCall.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_sixty_four_threads_never_reserve_more_than_the_purse_has(workspace: Workspace) -> None:
    session = uuid7()
    set_budget(workspace_id=workspace.pk, kind="session", owner_id=session, ceiling=D("3"))
    refused, settled = [], []

    def spend(nth: int) -> None:
        try:
            for _ in range(5):
                planned = plan_call(workspace, "0.1", session_id=session)
                try:
                    reserve(planned)
                except BudgetReached:
                    refused.append(nth)
                    continue
                settled.append(pay(planned, "0.05"))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=spend, args=(nth,)) for nth in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    purse = Purse.objects.get(owner_id=session)
    assert refused
    assert purse.spent == D("0.05") * len(settled) <= D(3)
    assert purse.reserved == purse.debt == 0
    total = CreditEntry.objects.filter(workspace=workspace).aggregate(all=Sum("amount"))["all"]
    assert total == get_balance(workspace.pk).balance


def test_low_credits_are_announced_by_inbox_mail_and_webhook(
    workspace: Workspace, mailoutbox: list, django_capture_on_commit_callbacks: Any
) -> None:
    hook = add_webhook(workspace_id=workspace.pk, url="https://example.com/x", events=["credits.*"])
    add_credits(workspace.pk, D("-9.5"), kind="adjustment")
    with django_capture_on_commit_callbacks(execute=True):
        assert tell_low_credits() == 1
    assert tell_low_credits() == 0
    assert InboxItem.objects.get(workspace=workspace).title == "Credits are running low"
    assert [mail.to for mail in mailoutbox] == [["owner@example.com"]]
    sent = WebhookDelivery.objects.get(webhook_id=hook.webhook.pk)
    assert sent.type == "credits.low"


@pytest.mark.parametrize("kind", ["charge", "sandbox"])
def test_the_database_refuses_a_charge_that_adds_credits(workspace: Workspace, kind: str) -> None:
    with pytest.raises(IntegrityError, match="charge_adds_no_credits"), transaction.atomic():
        CreditEntry.objects.create(workspace=workspace, kind=kind, amount=D(1))


def test_the_database_refuses_a_call_with_a_negative_cost(workspace: Workspace) -> None:
    planned = plan_call(workspace)
    reserve(planned)
    with pytest.raises(IntegrityError, match="call_costs"), transaction.atomic():
        pay(planned, "-1")

    assert get_balance(workspace.pk).balance == D(10)
