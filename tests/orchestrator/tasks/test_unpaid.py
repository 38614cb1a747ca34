"""What runs in a real container ends when its purse is empty, and nothing of it is left."""

from __future__ import annotations

from decimal import Decimal
from threading import Thread

import pytest
from django.db import connections

from agents.environments import create_environment
from agents.providers.base import ToolCall
from orchestrator.supervisor import SandboxBiller
from orchestrator.tasks import sandbox
from sessions_app.models import Run, Session, ToolExecution
from tenants.billing.credits import set_budget
from tenants.models import Purse, SandboxMinute
from tests.orchestrator.conftest import now
from tests.orchestrator.conftest import serve as serve_workflows
from tests.sessions_app.conftest import agent, newest, script, serve, session
from tests.sessions_app.stage import WORDS, E, say
from tests.tools_app.sandbox.conftest import IMAGE, alive, nap
from tests.tools_app.sandbox.test_leftovers import until
from tools_app.policy.storage import save_tool_policy
from tools_app.sandbox.container.lifecycle import list_containers, remove_containers

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["agent", "script", "session"]


def bill() -> None:
    """Count once, as the supervisor does twice a minute."""
    biller = SandboxBiller()
    biller.work()
    biller.wait()


def in_a_thread(work) -> Thread:
    def run() -> None:
        work()
        connections.close_all()

    thread = Thread(target=run)
    thread.start()
    return thread


@pytest.fixture
def boxed(session, engine, workspace, settings):
    """A session whose commands run in a container, each minute at a price."""
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.02")
    place = create_environment(
        workspace_id=workspace.pk, fields={"name": "boxes", "kind": "container", "image": IMAGE}
    )
    Session.objects.filter(pk=session.pk).update(environment=place)
    save_tool_policy(session.agent_id, {"allowed_tools": ["exec"]})
    yield session
    remove_containers(session.pk)


def ceiling(session: Session, dollars: str) -> Purse:
    return set_budget(
        workspace_id=session.workspace_id,
        kind="session",
        owner_id=session.pk,
        ceiling=Decimal(dollars),
    )


def test_a_command_in_a_container_is_charged_and_ended_when_nobody_can_pay_it(
    boxed, principal, script
):
    sleeps = nap()
    script([ToolCall(call_id="c1", name="exec", arguments={"command": sleeps})], WORDS)
    say(boxed, principal)
    working = in_a_thread(lambda: serve(boxed.pk))
    until(lambda: alive(sleeps))

    ceiling(boxed, "1")
    bill()
    assert SandboxMinute.objects.count() == 1
    assert alive(sleeps), "there is money for another minute"
    ceiling(boxed, "0.01")
    bill()
    until(lambda: not alive(sleeps))
    working.join()

    assert list_containers() == []
    run = Run.objects.get(session=boxed)
    assert (run.status, run.stop_reason) == ("failed", "budget_reached")
    assert "budget of this session" in newest(boxed, E.ERROR).payload["message"]
    assert ToolExecution.objects.get(session=boxed).state == "cancelled"


def test_no_container_is_made_again_before_the_purse_is_filled(boxed, principal, script):
    ceiling(boxed, "1")
    spend = Purse.objects.filter(kind="session").update
    call = ToolCall(call_id="c1", name="exec", arguments={"command": "true"})
    script([lambda: spend(spent=1), call], WORDS)
    say(boxed, principal)
    serve(boxed.pk)
    assert list_containers() == []

    ceiling(boxed, "5")
    script([call], WORDS)
    say(boxed, principal)
    serve(boxed.pk)
    assert [box["State"] for box in list_containers()] == ["running"]


def test_a_task_that_was_paid_for_when_it_began_is_not_ended_for_money(
    engine, begin, workspace, settings
):
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.02")
    fields = {"name": "boxes", "kind": "container", "image": IMAGE}
    create_environment(workspace_id=workspace.pk, fields=fields)
    waits = "while [ ! -e go ]; do sleep 0.05; done; echo done"
    made = begin({"command": waits, "environment": "boxes"}, name="execute-task")
    working = in_a_thread(serve_workflows)
    until(lambda: [box["State"] for box in list_containers()] == ["running"])
    Purse.objects.filter(kind="workspace").update(spent=1_000)
    bill()
    assert SandboxMinute.objects.count() == 1, "it is charged, whether there is money or not"
    sandbox.read(made.pk).folder.files.joinpath("go").touch()
    working.join()

    found = now(made)
    assert (found.status, found.error) == ("complete", None)
    assert found.output["output"] == "done\n"
