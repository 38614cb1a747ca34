"""Tests of the minutes of a task's sandbox: charged across restarts, each once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from orchestrator.engine.definition import Event
from orchestrator.tasks import sandbox as place
from orchestrator.tasks.billing import payers_of_sandboxes, settle
from sessions_app.sandbox_billing import charge_running
from tenants.billing.credits import get_balance
from tenants.billing.spending import last_charged
from tenants.models import SandboxMinute
from tests.orchestrator.conftest import now, serve
from tests.orchestrator.tasks.test_adoption import (
    WAIT,
    die,
    go,
    kind,
    serve_until,
    task,
)
from tests.orchestrator.tasks.test_commands import Killed, lose
from tests.tools_app.conftest import needs_bwrap

__all__ = ["kind", "serve_until", "task"]
pytestmark = [pytest.mark.django_db, needs_bwrap, pytest.mark.usefixtures("data_dir")]


@pytest.fixture(autouse=True)
def price(settings):
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.02")
    return settings.SANDBOX_MINUTE_PRICE


def spent(made, before):
    return before - get_balance(made.workspace_id).balance


def test_a_task_is_charged_once_for_the_time_of_its_command(task, price):
    made = task("echo hello")
    before = get_balance(made.workspace_id).balance
    serve()
    found = now(made)

    assert found.status == "complete", found.error
    assert Decimal(found.output["cost"]) == spent(made, before)
    assert spent(made, before) == price * SandboxMinute.objects.count()
    assert "sandbox" not in found.output


def test_settling_twice_charges_once(task, price):
    made = task("echo hello")
    before = get_balance(made.workspace_id).balance
    began = datetime(2026, 1, 1, 12, tzinfo=UTC)
    ran = {
        "sandbox": "command:x",
        "began_at": began.timestamp(),
        "ended_at": (began + timedelta(minutes=59, seconds=30)).timestamp(),
    }

    event = Event(
        id=made.pk,
        key=made.key,
        name=made.name,
        workspace_id=made.workspace_id,
        payload={},
        created_at=made.created_at,
    )

    assert [settle(event, ran), settle(event, ran)] == ["1.2", "1.2"]
    assert spent(made, before) == 60 * price


@pytest.mark.parametrize("kind", ["container"], indirect=True)
def test_minutes_without_any_running_process_are_charged_to_the_same_container(
    task, serve_until, price
):
    made = task(f"echo one; {WAIT}")
    before = get_balance(made.workspace_id).balance
    with pytest.raises(Killed):
        serve_until("one", die)
    assert charge_running(payers_of_sandboxes).minutes == 1
    # No process counts for five minutes; the command continues in its container.
    SandboxMinute.objects.update(minute=last_minute() - timedelta(minutes=5))
    assert charge_running(payers_of_sandboxes).minutes == 5
    lose(made)
    go(made)
    serve()
    found = now(made)

    assert found.status == "complete", found.error
    assert SandboxMinute.objects.values("sandbox").distinct().count() == 1
    assert Decimal(found.output["cost"]) == spent(made, before)
    assert spent(made, before) >= 6 * price
    assert place.read(made.pk) is None
    assert charge_running(payers_of_sandboxes).minutes == 0


def last_minute():
    (sandbox,) = SandboxMinute.objects.values_list("sandbox", flat=True).distinct()
    return last_charged([sandbox])[sandbox]
