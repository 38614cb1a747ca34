"""Tests that commands of a canvas are charged like those of any agent."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tenants.billing.credits import set_budget
from tenants.models import Purse, SandboxMinute
from tests.orchestrator.canvas.test_ledger import call_of
from tests.orchestrator.canvas.test_runs import agent, go, one_tool
from tests.tools_app.conftest import data_dir, needs_bwrap
from tools_app.policy.storage import agent_target, save_policy

pytestmark = pytest.mark.django_db
__all__ = ["agent", "data_dir"]


@pytest.fixture
def priced(settings):
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.02")


@needs_bwrap
def test_a_command_of_a_canvas_is_charged_once_to_every_purse(
    agent, begin, owner, workspace, data_dir, priced
):
    purses = [
        set_budget(workspace_id=workspace.pk, kind=kind, owner_id=owner_id, ceiling=Decimal(1))
        for kind, owner_id in (("agent", agent.pk), ("member", owner.pk))
    ]
    one_tool(agent, "exec", command="echo hi")
    save_policy(agent_target(agent.pk), {"approved_tools": ["exec"]})
    made = begin({"agent": str(agent.pk)}, name="canvas")
    assert go(made).status == "complete"

    assert SandboxMinute.objects.get().sandbox == f"call:{call_of(made).tool_use_id}"
    spent = Purse.objects.filter(pk__in=[one.pk for one in purses])
    assert set(spent.values_list("spent", flat=True)) == {Decimal("0.02")}


def test_no_command_of_a_canvas_starts_when_the_budget_is_used_up(
    agent, begin, workspace, data_dir, priced
):
    one_tool(agent, "exec", command="touch made")
    save_policy(agent_target(agent.pk), {"approved_tools": ["exec"]})
    purse = set_budget(
        workspace_id=workspace.pk, kind="agent", owner_id=agent.pk, ceiling=Decimal(1)
    )
    Purse.objects.filter(pk=purse.pk).update(spent=1)
    made = begin({"agent": str(agent.pk)}, name="canvas")

    assert "budget of this" in go(made).error["message"]
    assert (call_of(made).state, call_of(made).started_at) == ("error", None)
    assert not SandboxMinute.objects.exists()
