"""Tests of what runs cost: a row per call, a hard stop at the budget, charges after a crash."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection

from agents.exceptions import ProviderRejected
from agents.model_catalog import set_price
from agents.providers.base import TextDelta, Usage
from sessions_app.accept import accept_event
from sessions_app.harness import model_call
from sessions_app.harness.model_call import charge_lost_calls
from sessions_app.lanes import run_queue
from sessions_app.models import Run
from sessions_app.sessions import retry_run
from tenants.billing.credits import add_credits, get_balance, set_budget
from tenants.exceptions import BudgetReached, OutOfCredits
from tenants.models import ModelCall, Purse
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import WORDS, E, call, say

pytestmark = pytest.mark.usefixtures("stage_tools")
D = Decimal


@pytest.fixture
def priced(workspace):
    """Set a price of a dollar per thousand tokens for the demo model."""
    set_price(
        workspace.pk, provider="demo", model="demo", input_price=D(1000), output_price=D(1000)
    )


class Killed(BaseException):
    """Ends a worker as a kill does."""


def die(*_: object, **__: object) -> None:
    raise Killed


def budget(session, ceiling: str) -> Purse:
    return set_budget(
        workspace_id=session.workspace_id, kind="session", owner_id=session.pk, ceiling=D(ceiling)
    )


def test_every_model_call_has_its_row_and_its_charge(workspace, session, principal, script, priced):
    add_credits(workspace.pk, D(90), kind="grant")
    script([call("look", "x"), Usage(input_tokens=5, output_tokens=1)], WORDS)
    say(session, principal)

    serve(session.pk)

    calls = ModelCall.objects.filter(session_id=session.pk)
    assert [c.state for c in calls] == ["settled", "settled"]
    assert sum(c.cost for c in calls) == D("0.015")
    assert get_balance(workspace.pk).balance == D("99.985")
    assert get_balance(workspace.pk).reserved == 0
    session.refresh_from_db()
    assert session.cost == D("0.015")


def test_a_free_call_has_its_row_too(session, principal, script):
    script(WORDS)
    say(session, principal)
    serve(session.pk)
    assert (ModelCall.objects.get().cost, ModelCall.objects.get().input_tokens) == (D(0), 7)


def test_a_run_stops_at_its_budget_and_goes_on_when_it_is_raised(
    workspace, session, principal, script, priced
):
    add_credits(workspace.pk, D(90), kind="grant")
    purse_ = budget(session, "0.01")
    provider = script(WORDS)
    sent = say(session, principal)

    serve(session.pk)

    run = Run.objects.get(pk=sent.run_id)
    assert (run.status, run.stop_reason) == ("failed", "budget_reached")
    assert newest(session, E.STATUS_IDLE).payload["stop_reason"] == "budget_reached"
    error = newest(session, E.ERROR).payload
    assert error["code"] == "budget_reached"
    assert error["retryable"] is False
    assert "budget of this session" in error["message"]
    assert provider.requests == []

    budget(session, "50")
    retry_run(run)
    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "All done."
    purse_.refresh_from_db()
    assert purse_.spent == D("0.009")


def test_a_session_without_money_accepts_no_messages(workspace, session, principal, script):
    budget(session, "0")
    with pytest.raises(BudgetReached):
        say(session, principal)
    assert session.events.count() == 0
    Purse.objects.filter(kind="session").delete()
    add_credits(workspace.pk, -get_balance(workspace.pk).balance, kind="adjustment")
    with pytest.raises(OutOfCredits):
        say(session, principal)


def test_a_message_without_credits_is_refused_with_402(api, workspace, session):
    add_credits(workspace.pk, D(-10), kind="adjustment")
    answer = api.post(f"/api/v1/sessions/{session.pk}/messages/", {"text": "hi"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (402, "out_of_credits")


def test_a_call_is_recorded_under_the_key_that_sent_its_message(
    api, workspace, session, script, priced
):
    add_credits(workspace.pk, D(90), kind="grant")
    script(WORDS)
    api.post(f"/api/v1/sessions/{session.pk}/messages/", {"text": "hi"}, format="json")
    key_id = Run.objects.get().key_id
    assert key_id is not None
    serve(session.pk)
    assert ModelCall.objects.get().key_id == key_id


def test_a_call_that_fails_unanswered_costs_nothing(session, principal, script, priced, workspace):
    add_credits(workspace.pk, D(90), kind="grant")
    script([ProviderRejected("no")])
    say(session, principal)
    serve(session.pk)
    failed = ModelCall.objects.get()
    assert (failed.state, failed.cost) == ("failed", D(0))
    assert get_balance(workspace.pk).reserved == 0


@pytest.mark.django_db(transaction=True)
def test_an_interrupted_answer_is_charged_by_an_estimate(
    session, principal, script, priced, workspace
):
    add_credits(workspace.pk, D(90), kind="grant")
    script(
        [
            TextDelta(text="word " * 40),
            lambda: accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={}),
            ProviderRejected("cut"),
        ]
    )
    say(session, principal)
    serve(session.pk)
    stopped = ModelCall.objects.get()
    assert stopped.state == "estimated"
    assert 0 < stopped.cost < stopped.reserved


def test_a_call_whose_worker_was_killed_is_charged_its_reservation(
    session, principal, script, priced, workspace, monkeypatch
):
    add_credits(workspace.pk, D(90), kind="grant")
    say(session, principal)

    script([die])
    with monkeypatch.context() as patched:
        patched.setattr(model_call, "settle", die)
        with pytest.raises(Killed):
            serve(session.pk)
    open_call = ModelCall.objects.get()
    assert open_call.state == "reserved"

    assert charge_lost_calls() == 0  # The lane is still held.
    with connection.cursor() as cursor:
        cursor.execute("UPDATE agent_sessions SET lease_expires = '-infinity'")
    run_queue.reap()
    assert charge_lost_calls() == 0  # The worker may still come back and settle.
    assert ModelCall.objects.exclude(lost_at=None).update(lost_at="2020-01-01T00:00Z") == 1
    assert charge_lost_calls() == 1

    open_call.refresh_from_db()
    assert (open_call.state, open_call.cost) == ("estimated", open_call.reserved)
    assert get_balance(workspace.pk).reserved == 0
    session.refresh_from_db()
    assert session.cost == open_call.cost


def test_the_usage_of_a_session_includes_the_calls_of_a_lost_run(
    workspace, session, principal, script, priced, monkeypatch
):
    add_credits(workspace.pk, D(90), kind="grant")
    script([call("look", "x"), Usage(input_tokens=5, output_tokens=1)], WORDS, WORDS)
    say(session, principal)
    with monkeypatch.context() as patched:
        patched.setattr("sessions_app.harness.loop.run_queue.finish", die)
        with pytest.raises(Killed):
            serve(session.pk)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE agent_sessions SET lease_expires = '-infinity'")
    run_queue.reap()
    serve(session.pk)

    session.refresh_from_db()
    calls = ModelCall.objects.filter(session_id=session.pk)
    assert len(calls) == 3
    assert session.cost == sum(one.cost for one in calls) == D("0.024")
    assert (session.input_tokens, session.output_tokens) == (19, 5)


@pytest.mark.parametrize("reported", [-1_000_000, -(10**30), 10**30])
def test_absurd_token_counts_never_raise_the_balance(
    workspace, session, principal, script, priced, reported
):
    add_credits(workspace.pk, D(90), kind="grant")
    before = get_balance(workspace.pk).balance
    counts = Usage(input_tokens=reported, output_tokens=reported, cache_read_tokens=reported)
    script([TextDelta(text="Hello."), counts])
    say(session, principal)

    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "Hello."
    assert get_balance(workspace.pk).balance < before
    session.refresh_from_db()
    assert session.cost > 0
    assert session.input_tokens >= 0
