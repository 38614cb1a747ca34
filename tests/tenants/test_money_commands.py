"""Tests of the commands for credits, usage and schedules."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from agents.models import Agent
from sessions_app.models import Schedule
from sessions_app.schedules import schedules
from tenants.billing.credits import get_balance
from tenants.billing.spending import Charge, PlannedCall, Spender, reserve, settle
from tenants.models import Workspace
from tests.factories import make

pytestmark = pytest.mark.django_db
D = Decimal


def run_command(*words: str) -> str:
    written = StringIO()
    call_command(*words, stdout=written)
    return written.getvalue()


def test_credits_are_granted_adjusted_and_shown(workspace: Workspace):
    run_command("credits", "grant", "--workspace", "Yard", "--amount", "25", "--note", "Invoice 7")
    run_command("credits", "adjust", "--workspace", "Yard", "--amount=-5")
    shown = run_command("credits", "show", "--workspace", "Yard")

    assert get_balance(workspace.pk).balance == D(30)
    assert "balance 30.00" in shown
    assert "Invoice 7" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["credits", "show", "--workspace", "Nowhere"], "no workspace 'Nowhere'"),
        (["credits", "grant", "--workspace", "Yard", "--amount", "much"], "not an amount"),
        (["credits", "grant", "--workspace", "Yard", "--amount", "nan"], "not an amount"),
        (["credits", "grant", "--workspace", "Yard", "--amount=-1"], "A grant adds credits"),
        (["usage", "--workspace", "Yard", "--from", "soon"], "is not a day"),
        (["schedules", "run", "--workspace", "Yard", "--schedule", "X"], "No schedule is named"),
    ],
)
def test_an_invalid_command_fails_with_one_clear_line(workspace: Workspace, words, message):
    with pytest.raises(CommandError, match=message):
        run_command(*words)


def test_usage_is_printed_as_lines_and_as_csv(workspace: Workspace):
    call = PlannedCall(
        spender=Spender(workspace_id=workspace.pk),
        provider="openai",
        model="gpt-5",
        worst_case=D(1),
    )
    reserve(call)
    settle(
        Charge(call_id=call.id, outcome="settled", cost=D("0.25"), input_tokens=10, output_tokens=2)
    )
    lines = run_command("usage", "--workspace", "Yard", "--by", "model")
    table = run_command("usage", "--workspace", "Yard", "--by", "model", "--csv")

    assert "openai/gpt-5\t1 calls\t10 in\t2 out\t0.250000" in lines
    assert table.splitlines()[0] == "model,name,calls,input_tokens,output_tokens,cached_tokens,cost"


def test_schedules_are_listed_paused_resumed_and_run(workspace: Workspace):
    agent = Agent.objects.get(pk=make(Agent, workspace).pk)
    schedules.create_schedule(
        workspace_id=workspace.pk,
        name="Look",
        agent=agent,
        message="Look.",
        kind="interval",
        interval_seconds=3600,
    )
    where = ("--workspace", "Yard")
    assert "Every hour" in run_command("schedules", "list", *where)
    assert run_command("schedules", "pause", *where, "--schedule", "Look").endswith("paused\n")
    assert run_command("schedules", "resume", *where, "--schedule", "Look").endswith("active\n")
    assert run_command("schedules", "run", *where, "--schedule", "Look").startswith("sent\t")


def test_a_schedule_of_another_workspace_is_not_found(workspace, foreign_workspace):
    foreign = make(Schedule, foreign_workspace)

    with pytest.raises(CommandError, match="No schedule"):
        run_command("schedules", "pause", "--workspace", "Yard", "--schedule", str(foreign.pk))
