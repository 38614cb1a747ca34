"""Tests of sandbox minutes: charged while a sandbox runs, each minute once."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from django.db import connections
from django.utils import timezone

from agents.environments import change_environment, create_environment, default_environment
from agents.providers.base import ToolCall
from core.ids import uuid7
from orchestrator.supervisor import BackgroundJob, bill_sandboxes
from sessions_app.lanes import run_queue
from sessions_app.models import Run, Session, ToolExecution
from sessions_app.sandbox_billing import charge_running, stop_unpaid
from sessions_app.sessions import get_or_create_session, retry_run
from tenants.access import principal_of_user
from tenants.billing.credits import get_balance, set_budget
from tenants.billing.spending import (
    charge_minutes,
    delete_old_minutes,
    last_charged,
    this_minute,
    uncharged,
)
from tenants.billing.usage import Span, daily, report, totals
from tenants.models import CreditEntry, Purse, SandboxMinute
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER, newest, serve
from tests.sessions_app.stage import WORDS, E, say
from tools_app.policy.storage import save_tool_policy
from tools_app.sandbox.container.lifecycle import ROLE, SESSION

D = Decimal


@pytest.fixture
def priced(settings, monkeypatch):
    """Give sandboxes a price, in a minute that does not end during the test."""
    settings.SANDBOX_MINUTE_PRICE = D("0.02")
    minute = this_minute()
    for module in ("tenants.billing.spending", __name__):
        monkeypatch.setattr(f"{module}.this_minute", lambda: minute)


@pytest.fixture
def boxes(monkeypatch):
    """Replace the engine's list of containers, so that no test starts one."""
    found: list[dict] = []
    monkeypatch.setattr("sessions_app.sandbox_billing.sessions_with_claims", lambda: [uuid7()])
    monkeypatch.setattr("sessions_app.sandbox_billing.list_containers", lambda: found)
    return found


def box(session: Session, state: str = "running") -> dict:
    labels = {SESSION: str(session.pk), ROLE: "commands"}
    return {"Id": uuid7().hex, "State": state, "Labels": labels}


def balance(session: Session) -> Decimal:
    return get_balance(session.workspace_id).balance


def test_a_running_container_is_charged_once_a_minute(session, priced, boxes):
    boxes += [box(session), box(session, "exited")]

    assert [charge_running().minutes, charge_running().minutes] == [1, 0]
    assert balance(session) == D("9.98")
    assert CreditEntry.objects.get(kind="sandbox").amount == D("-0.02")
    assert totals(daily(session.workspace_id, Span.parse(None, None)))["sandbox_cost"] == D("0.02")


def test_minutes_missed_by_the_biller_are_charged_later(session, priced, boxes):
    boxes.append(box(session))
    charge_running()
    ago = this_minute() - timedelta(minutes=5)
    SandboxMinute.objects.update(minute=ago)

    assert charge_running().minutes == 5
    assert balance(session) == D("9.88")


def test_a_gap_of_several_days_is_charged_only_in_part():
    now = timezone.now().replace(second=0, microsecond=0)

    assert uncharged(now - timedelta(days=9), now)[1] == 24 * 60 + 1
    assert uncharged(None, now) == (now, 1)
    assert uncharged(now, now)[1] == 0


def test_no_minutes_are_charged_without_a_price(session, boxes):
    boxes.append(box(session))

    assert charge_running().minutes == 0
    assert not SandboxMinute.objects.exists()


def test_a_container_without_a_session_is_not_charged(session, priced, boxes):
    lost = box(session)
    lost["Labels"][SESSION] = str(uuid7())
    boxes.append(lost)

    assert charge_running().minutes == 0


@pytest.mark.django_db(transaction=True)
def test_two_supervisors_charge_a_minute_once(session, priced, boxes):
    boxes += [box(session) for _ in range(5)]
    billers = [BackgroundJob(bill_sandboxes) for _ in range(4)]
    for biller in billers:
        biller.start()
    for biller in billers:
        biller.wait()

    assert SandboxMinute.objects.count() == 5
    assert CreditEntry.objects.filter(kind="sandbox").count() == 5
    assert balance(session) == D("9.90")


@pytest.mark.django_db(transaction=True)
def test_concurrent_charges_of_the_same_minutes_count_each_once(workspace, priced):
    first, ready = this_minute() - timedelta(minutes=9), threading.Barrier(8)
    charged: list[int] = []

    def one() -> None:
        ready.wait()
        charged.append(charge_minutes(workspace.pk, "a", first=first, count=10, note=""))
        connections.close_all()

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(charged) == 10
    assert get_balance(workspace.pk).balance == D("9.80")


def run_command(session, principal, script, command: str = "true") -> ToolExecution:
    save_tool_policy(session.agent_id, {"approved_tools": ["exec"]})
    script([ToolCall(call_id="c1", name="exec", arguments={"command": command})], WORDS)
    say(session, principal)
    serve(session.pk)
    return ToolExecution.objects.get(session=session)


def test_a_local_command_is_charged_per_started_minute_with_its_result(
    session, principal, script, priced
):
    done = run_command(session, principal, script)

    assert done.state in {"completed", "error"}
    assert SandboxMinute.objects.get().sandbox == f"call:{done.tool_use_id}"
    assert balance(session) == D("9.98")


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_command_in_a_container_is_not_charged_separately(
    session, principal, script, priced, workspace, is_chosen
):
    boxes = {"kind": "container"}
    if is_chosen:
        made = create_environment(workspace_id=workspace.pk, fields={"name": "boxes", **boxes})
        Session.objects.filter(pk=session.pk).update(environment=made)
    else:
        change_environment(default_environment(workspace.pk), boxes)
    run_command(session, principal, script)

    assert not SandboxMinute.objects.exists()


def test_a_command_costs_nothing_while_there_is_no_price(session, principal, script):
    run_command(session, principal, script)

    assert not SandboxMinute.objects.exists()


def test_old_minutes_are_deleted_and_the_newest_is_kept(workspace, priced):
    now = this_minute()
    charge_minutes(workspace.pk, "a", first=now - timedelta(days=4), count=1, note="")
    charge_minutes(workspace.pk, "a", first=now, count=1, note="")

    assert delete_old_minutes() == 1
    assert last_charged(["a", "b"]) == {"a": now}


# ── Every purse of the chain is charged ──────────────────────────────────────────────────────────


@pytest.fixture
def purses(session):
    """Set budgets of a dollar for the agent, the session and its parent session."""
    above, _ = get_or_create_session(agent=session.agent, session_key="above")
    Session.objects.filter(pk=session.pk).update(parent=above, ancestors=[above.pk])
    owners = {"agent": session.agent_id, "session": session.pk, "above": above.pk}
    return {
        name: set_budget(
            workspace_id=session.workspace_id,
            kind="agent" if name == "agent" else "session",
            owner_id=owner_id,
            ceiling=D(1),
        )
        for name, owner_id in owners.items()
    }


def spent(purses: dict[str, Purse]) -> set[Decimal]:
    found = Purse.objects.filter(pk__in=[purse.pk for purse in purses.values()])
    return set(found.values_list("spent", flat=True))


def test_a_container_is_charged_to_every_purse_of_its_session(session, priced, boxes, purses):
    boxes.append(box(session))
    charge_running()
    charge_running()

    assert spent(purses) == {D("0.02")}
    assert balance(session) == D("9.98")


def test_a_local_command_is_charged_to_every_purse_of_its_session(
    session, principal, script, priced, purses
):
    by_member = set_budget(
        workspace_id=session.workspace_id,
        kind="member",
        owner_id=principal.user.pk,
        ceiling=D(1),
    )
    run_command(session, principal, script)

    assert spent({**purses, "member": by_member}) == {D("0.02")}


def test_a_daily_budget_is_charged_only_for_its_day(session, priced, boxes, purses):
    Purse.objects.filter(kind="agent").update(period="day", spent=D(7), since="2020-01-01")
    boxes.append(box(session))
    charge_running()

    assert Purse.objects.get(kind="agent").spent == D("0.02")


@pytest.mark.parametrize("empty", ["agent", "session", "above"])
def test_no_command_starts_when_a_budget_is_used_up(
    session, principal, script, priced, purses, empty
):
    """The budget runs out while the model answers."""
    save_tool_policy(session.agent_id, {"approved_tools": ["exec"]})
    spend = Purse.objects.filter(pk=purses[empty].pk).update
    command = ToolCall(call_id="c1", name="exec", arguments={"command": "touch made"})
    script([partial(spend, spent=D(1)), command], WORDS)
    say(session, principal)
    serve(session.pk)

    refused = ToolExecution.objects.get(session=session)
    assert (refused.state, refused.started_at) == ("error", None)
    assert "Not run: The budget of this" in refused.error
    assert Run.objects.get(session=session).stop_reason == "budget_reached"
    assert not SandboxMinute.objects.exists()


def test_a_run_is_stopped_when_its_budget_runs_out_and_continues_when_it_is_raised(
    session, principal, script, priced, boxes, purses
):
    script(WORDS)
    sent = say(session, principal)
    run_queue.claim(session.pk, OWNER)
    boxes.append(box(session))
    set_budget(
        workspace_id=session.workspace_id, kind="session", owner_id=session.pk, ceiling=D("0.01")
    )
    fault = charge_running().unpaid[session.pk]
    stop_unpaid(session.pk, fault)

    run = Run.objects.get(pk=sent.run_id)
    assert (run.status, run.stop_reason) == ("failed", "budget_reached")
    assert "budget of this session" in newest(session, E.ERROR).payload["message"]

    set_budget(workspace_id=session.workspace_id, kind="session", owner_id=session.pk, ceiling=D(5))
    assert charge_running().unpaid == {}
    retry_run(run)
    serve(session.pk)
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."


@pytest.mark.django_db(transaction=True)
def test_the_supervisor_removes_containers_that_cannot_be_paid(session, priced, boxes, monkeypatch):
    ended: list[object] = []
    monkeypatch.setattr("sessions_app.sandbox_billing.remove_containers", ended.append)
    boxes.append(box(session))
    set_budget(
        workspace_id=session.workspace_id, kind="session", owner_id=session.pk, ceiling=D("0.01")
    )
    biller = BackgroundJob(bill_sandboxes)
    biller.start()
    biller.wait()

    assert ended == [session.pk]


# ── Usage by member ──────────────────────────────────────────────────────────────────────────────


def sandbox_costs(session: Session) -> dict[str, Decimal]:
    """Return what the sandboxes of each member cost, by the member's id."""
    rows = report(session.workspace_id, "member", Span.parse(None, None))
    return {row.key: row.sandbox_cost for row in rows if row.sandbox_cost}


def test_a_command_counts_as_usage_of_the_member_who_sent_the_message(
    session, principal, script, priced
):
    run_command(session, principal, script)

    assert sandbox_costs(session) == {str(principal.user_id): D("0.02")}


def test_a_container_counts_as_usage_of_the_member_who_started_the_newest_run(
    session, workspace, principal, script, priced, boxes
):
    boxes.append(box(session))
    charge_running()
    assert sandbox_costs(session) == {str(session.created_by_id or ""): D("0.02")}
    builder = add_member(workspace, "builder")
    script(WORDS)
    say(session, principal_of_user(builder, workspace.pk))
    SandboxMinute.objects.update(minute=this_minute() - timedelta(minutes=1))
    charge_running()

    assert sandbox_costs(session)[str(builder.pk)] == D("0.02")


def test_a_container_of_a_sub_agent_counts_for_the_member_at_the_top(
    session, workspace, script, priced, boxes, purses
):
    above = Session.objects.get(pk=purses["above"].owner_id)
    builder = add_member(workspace, "builder")
    script(WORDS)
    say(above, principal_of_user(builder, workspace.pk))
    boxes.append(box(session))
    charge_running()

    assert sandbox_costs(session) == {str(builder.pk): D("0.02")}


def test_usage_by_member_adds_up_to_the_cost_of_all_sandboxes(
    api, session, workspace, principal, script, priced, boxes
):
    run_command(session, principal, script)
    charge_minutes(workspace.pk, "lost", first=this_minute(), count=3, note="")
    answer = api.get("/api/v1/usage/?by=member").json()

    costs = [D(row["sandbox_cost"]) for row in answer["results"]]
    assert sum(costs) == D(answer["totals"]["sandbox_cost"]) == D("0.08")
    by_model = api.get("/api/v1/usage/?by=model").json()["results"]
    assert {row["sandbox_cost"] for row in by_model} == {None}
    table = api.get("/api/v1/usage/?by=member&as=csv").content.decode().splitlines()
    assert (
        table[0] == "member,name,calls,input_tokens,output_tokens,cached_tokens,cost,sandbox_cost"
    )
