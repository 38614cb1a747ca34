"""Minutes of sandboxes: charged while they run, each once, whoever counts."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connections
from django.utils import timezone

from agents.environments import create_environment
from agents.providers.base import ToolCall
from orchestrator.supervisor import Biller
from sessions_app.models import Session, ToolExecution
from sessions_app.sandbox_minutes import charge_running
from tenants.credits import balance_of
from tenants.ids import uuid7
from tenants.models import CreditEntry, SandboxMinute
from tenants.sandbox_minutes import (
    charge_minutes,
    forget_old_minutes,
    last_charged,
    this_minute,
    uncharged,
)
from tenants.usage import Span, totals
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import WORDS, say
from tools_app.policies import save_tool_policy
from tools_app.sandbox.container.lifecycle import ROLE, SESSION

D = Decimal


@pytest.fixture
def priced(settings):
    settings.SANDBOX_MINUTE_PRICE = D("0.02")


@pytest.fixture
def boxes(monkeypatch):
    """What an engine would answer: no test of money starts a container."""
    found: list[dict] = []
    monkeypatch.setattr("sessions_app.sandbox_minutes.claiming_sessions", lambda: [uuid7()])
    monkeypatch.setattr("sessions_app.sandbox_minutes.running", lambda: found)
    return found


def box(session: Session, state: str = "running") -> dict:
    labels = {SESSION: str(session.pk), ROLE: "commands"}
    return {"Id": uuid7().hex, "State": state, "Labels": labels}


def balance(session: Session) -> Decimal:
    return balance_of(session.workspace_id).balance


def test_a_running_container_is_charged_once_a_minute(session, priced, boxes):
    boxes += [box(session), box(session, "exited")]

    assert [charge_running(), charge_running()] == [1, 0]
    assert balance(session) == D("9.98")
    assert CreditEntry.objects.get(kind="sandbox").amount == D("-0.02")
    assert totals(session.workspace_id, Span.read(None, None))["sandbox_cost"] == D("0.02")


def test_minutes_that_nobody_counted_are_charged_later(session, priced, boxes):
    boxes.append(box(session))
    charge_running()
    ago = this_minute() - timedelta(minutes=5)
    SandboxMinute.objects.update(minute=ago)

    assert charge_running() == 5
    assert balance(session) == D("9.88")


def test_a_gap_of_days_is_not_charged_whole():
    now = timezone.now().replace(second=0, microsecond=0)

    assert uncharged(now - timedelta(days=9), now)[1] == 24 * 60 + 1
    assert uncharged(None, now) == (now, 1)
    assert uncharged(now, now)[1] == 0


def test_nothing_is_charged_while_there_is_no_price(session, boxes):
    boxes.append(box(session))

    assert charge_running() == 0
    assert not SandboxMinute.objects.exists()


def test_a_container_of_no_session_is_nobodys_to_pay(session, priced, boxes):
    lost = box(session)
    lost["Labels"][SESSION] = str(uuid7())
    boxes.append(lost)

    assert charge_running() == 0


@pytest.mark.django_db(transaction=True)
def test_two_supervisors_charge_a_minute_once(session, priced, boxes):
    boxes += [box(session) for _ in range(5)]
    billers = [Biller() for _ in range(4)]
    for biller in billers:
        biller.work()
    for biller in billers:
        biller.wait()

    assert SandboxMinute.objects.count() == 5
    assert CreditEntry.objects.filter(kind="sandbox").count() == 5
    assert balance(session) == D("9.90")


@pytest.mark.django_db(transaction=True)
def test_many_who_charge_the_same_minutes_charge_each_once(workspace, priced):
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
    assert balance_of(workspace.pk).balance == D("9.80")


def run_command(session, principal, script, command: str = "true") -> ToolExecution:
    save_tool_policy(session.agent_id, {"allowed_tools": ["exec"]})
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


def test_a_command_in_a_container_is_paid_by_the_container(
    session, principal, script, priced, workspace
):
    fields = {"name": "boxes", "kind": "container"}
    session.environment = create_environment(workspace_id=workspace.pk, fields=fields)
    session.save(update_fields=["environment"])
    run_command(session, principal, script)

    assert not SandboxMinute.objects.exists()


def test_a_command_costs_nothing_while_there_is_no_price(session, principal, script):
    run_command(session, principal, script)

    assert not SandboxMinute.objects.exists()


def test_old_minutes_are_forgotten_and_the_newest_is_known(workspace, priced):
    now = this_minute()
    charge_minutes(workspace.pk, "a", first=now - timedelta(days=4), count=1, note="")
    charge_minutes(workspace.pk, "a", first=now, count=1, note="")

    assert forget_old_minutes() == 1
    assert last_charged(["a", "b"]) == {"a": now}
