"""Tests that agents which never stop are stopped by a budget that is never exceeded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from uuid import UUID

import pytest
from django.db import connections
from django.db.models import F, Max

from agents.definitions import create_agent
from agents.model_catalog import set_price
from agents.providers.base import Delta, ModelRequest, TextDelta, ToolCall, Usage
from core.ids import uuid7
from sessions_app.models import Run, Session, ToolExecution
from sessions_app.sessions import get_or_create_session
from tenants.billing.credits import add_credits, get_balance, set_budget
from tenants.models import ModelCall, Purse
from tests.sessions_app.conftest import serve, types
from tests.sessions_app.stage import E, say
from tools_app import save_tool_policy

pytestmark = pytest.mark.django_db(transaction=True)
D = Decimal
WORKERS, MOST_ROUNDS = 4, 60
#: The test ends the model's calls here if no budget does.
MOST_CALLS = 100
BUDGET = D(5)
#: So wide that only the budget ends a run.
LIMITS = {"max_model_calls": 1000, "max_tool_calls": 1000, "max_children": 1000}
#: 30 cents per call at the price below; each call reserves a little more.
USED, PRICE = Usage(input_tokens=3000, output_tokens=10), D(100)

NextCall = Callable[[int], tuple[str, dict[str, object]]]


class Runaway:
    """Answers every request with one more call and records overdrawn purses."""

    def __init__(self, next_call: NextCall) -> None:
        self.next_call, self.asked = next_call, 0
        self.overdrawn: list[Purse] = []
        self.lock = threading.Lock()

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        self.overdrawn += Purse.objects.filter(spent__gt=F("ceiling") - F("reserved"))
        with self.lock:
            self.asked = number = self.asked + 1
        if number > MOST_CALLS:
            yield TextDelta(text="Nobody has stopped me.")
            return
        name, arguments = self.next_call(number)
        yield ToolCall(call_id=f"c{number}", name=name, arguments=arguments)
        yield USED


@pytest.fixture
def agent(workspace, owner):
    fields = {"name": "Tester", "provider": "demo", "model": "demo", "limits": LIMITS}
    made = create_agent(
        workspace_id=workspace.pk, fields={**fields, "max_tokens": 50}, created_by=owner
    )
    save_tool_policy(made.pk, {"profile": "full"})
    set_price(workspace.pk, provider="demo", model="demo", input_price=PRICE, output_price=PRICE)
    add_credits(workspace.pk, D(990), kind="grant")
    return made


@pytest.fixture
def runaway(monkeypatch):
    def use(next_call: NextCall) -> Runaway:
        made = Runaway(next_call)
        monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: made)
        return made

    return use


def purse_of(workspace, kind: str, owner_id: UUID) -> Purse:
    """Return the only purse that is small enough to run out."""
    if kind == "workspace":
        left = get_balance(workspace.pk).balance
        add_credits(workspace.pk, BUDGET - left, kind="adjustment")
        return Purse.objects.get(workspace=workspace, kind=kind)
    return set_budget(workspace_id=workspace.pk, kind=kind, owner_id=owner_id, ceiling=BUDGET)


def drain() -> None:
    """Serve every queued lane, several at a time, until no run is queued."""
    for _ in range(MOST_ROUNDS):
        due = Run.objects.filter(status="queued").values_list("session_id", flat=True)
        lanes = sorted(set(due))
        if not lanes:
            return
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(_serve, lanes))
    raise AssertionError("It goes on and on.")


def _serve(session_id: UUID) -> None:
    try:
        serve(session_id, uuid7())
    finally:
        connections.close_all()


def check_stopped(purse: Purse, model: Runaway) -> None:
    purse.refresh_from_db()
    assert model.overdrawn == []
    assert purse.reserved == purse.debt == 0
    assert D(0) < purse.spent <= BUDGET
    most = ModelCall.objects.aggregate(most=Max("reserved"))["most"]
    assert purse.spent > BUDGET - 2 * most, "It stopped long before its purse was used."
    assert ModelCall.objects.filter(state="settled").count() == model.asked
    assert set(Session.objects.values_list("status", flat=True)) == {"idle"}
    assert Run.objects.filter(stop_reason="budget_reached").exists()


@pytest.mark.parametrize("kind", ["workspace", "agent", "session"])
@pytest.mark.parametrize("wait", [True, False])
def test_endless_spawning_stops_within_the_budget(
    workspace, agent, session, principal, runaway, kind, wait
):
    purse = purse_of(workspace, kind, {"agent": agent.pk, "session": session.pk}.get(kind))
    model = runaway(lambda nth: ("sessions_spawn", {"task": f"Spawn {nth}.", "wait": wait}))
    say(session, principal)

    drain()

    check_stopped(purse, model)
    assert Session.objects.filter(parent=session).exists()
    assert types(session).count(E.CHILD_CREATED) == types(session).count(E.CHILD_IDLE)


def test_endless_spawning_and_messaging_stops_within_the_budget(
    workspace, agent, session, principal, runaway
):
    purse = purse_of(workspace, "agent", agent.pk)

    def next_call(nth: int) -> tuple[str, dict[str, object]]:
        if nth % 2:
            return "sessions_spawn", {"task": f"Spawn {nth}.", "wait": nth % 4 == 1}
        known = list(Session.objects.order_by("pk").values_list("pk", flat=True))
        target = str(known[nth % len(known)])
        return "sessions_send", {"session": target, "message": f"Go {nth}.", "wait": nth % 4 == 2}

    model = runaway(next_call)
    say(session, principal)

    drain()

    check_stopped(purse, model)


def test_two_sessions_that_message_each_other_endlessly_stop_within_the_budget(
    workspace, agent, session, principal, runaway
):
    purse = purse_of(workspace, "agent", agent.pk)
    other, _ = get_or_create_session(agent=agent, session_key="other")
    ids = [str(session.pk), str(other.pk)]
    model = runaway(
        lambda nth: ("sessions_send", {"session": ids[nth % 2], "message": f"{nth}", "wait": False})
    )
    say(session, principal)

    drain()

    check_stopped(purse, model)


def test_a_session_cannot_message_itself_and_endless_tries_reach_the_step_limit(
    agent, session, principal, runaway
):
    runaway(lambda nth: ("sessions_send", {"session": str(session.pk), "message": "Again."}))
    say(session, principal)

    drain()

    assert Run.objects.get().stop_reason == "step_limit"
    assert "no session" in ToolExecution.objects.first().error
