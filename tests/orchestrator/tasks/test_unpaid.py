"""Tests that work in a real container ends when its budget runs out and leaves nothing behind."""

from __future__ import annotations

from decimal import Decimal
from threading import Thread

import pytest
from django.db import connections

from agents.environments import create_environment
from agents.providers.base import ToolCall
from orchestrator.supervisor import BackgroundJob, bill_sandboxes
from orchestrator.tasks import sandbox
from sessions_app.models import Run, Session, ToolExecution
from tenants.billing.credits import set_budget
from tenants.models import Purse, SandboxMinute
from tests.orchestrator.conftest import now
from tests.orchestrator.conftest import serve as serve_workflows
from tests.sessions_app.conftest import agent, newest, script, serve, session
from tests.sessions_app.stage import WORDS, E, say
from tests.tools_app.sandbox.conftest import IMAGE, alive, sleep_command
from tests.tools_app.sandbox.test_leftovers import wait_until
from tools_app.policy.storage import save_tool_policy
from tools_app.sandbox.container.lifecycle import list_containers, remove_containers

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["agent", "script", "session"]


def bill() -> None:
    """Bill once, as the supervisor does twice a minute."""
    biller = BackgroundJob(bill_sandboxes)
    biller.start()
    biller.wait()


def in_a_thread(work) -> Thread:
    def run() -> None:
        work()
        connections.close_all()

    thread = Thread(target=run)
    thread.start()
    return thread


@pytest.fixture
def container_session(session, engine, workspace, settings):
    """Run the session's commands in a container at a price per minute."""
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.02")
    place = create_environment(
        workspace_id=workspace.pk, fields={"name": "boxes", "kind": "container", "image": IMAGE}
    )
    Session.objects.filter(pk=session.pk).update(environment=place)
    save_tool_policy(session.agent_id, {"approved_tools": ["exec"]})
    yield session
    remove_containers(session.pk)


def ceiling(session: Session, dollars: str) -> Purse:
    return set_budget(
        workspace_id=session.workspace_id,
        kind="session",
        owner_id=session.pk,
        ceiling=Decimal(dollars),
    )


def test_a_command_in_a_container_is_charged_and_ended_when_the_budget_runs_out(
    container_session, principal, script
):
    sleeps = sleep_command()
    script([ToolCall(call_id="c1", name="exec", arguments={"command": sleeps})], WORDS)
    say(container_session, principal)
    working = in_a_thread(lambda: serve(container_session.pk))
    wait_until(lambda: alive(sleeps))

    ceiling(container_session, "1")
    bill()
    assert SandboxMinute.objects.count() == 1
    assert alive(sleeps), "there is money for another minute"
    ceiling(container_session, "0.01")
    bill()
    wait_until(lambda: not alive(sleeps))
    working.join()

    assert list_containers() == []
    run = Run.objects.get(session=container_session)
    assert (run.status, run.stop_reason) == ("failed", "budget_reached")
    assert "budget of this session" in newest(container_session, E.ERROR).payload["message"]
    assert ToolExecution.objects.get(session=container_session).state == "cancelled"


def test_no_container_is_created_until_the_budget_is_raised(container_session, principal, script):
    ceiling(container_session, "1")
    spend = Purse.objects.filter(kind="session").update
    call = ToolCall(call_id="c1", name="exec", arguments={"command": "true"})
    script([lambda: spend(spent=1), call], WORDS)
    say(container_session, principal)
    serve(container_session.pk)
    assert list_containers() == []

    ceiling(container_session, "5")
    script([call], WORDS)
    say(container_session, principal)
    serve(container_session.pk)
    assert [box["State"] for box in list_containers()] == ["running"]


def test_a_task_that_was_affordable_at_its_start_is_not_ended_for_lack_of_money(
    engine, begin, workspace, settings
):
    settings.SANDBOX_MINUTE_PRICE = Decimal("0.02")
    fields = {"name": "boxes", "kind": "container", "image": IMAGE}
    create_environment(workspace_id=workspace.pk, fields=fields)
    waits = "while [ ! -e go ]; do sleep 0.05; done; echo done"
    made = begin({"command": waits, "environment": "boxes"}, name="execute-task")
    working = in_a_thread(serve_workflows)
    wait_until(lambda: [box["State"] for box in list_containers()] == ["running"])
    Purse.objects.filter(kind="workspace").update(spent=1_000)
    bill()
    assert SandboxMinute.objects.count() == 1, "it is charged, whether there is money or not"
    sandbox.read(made.pk).folder.files.joinpath("go").touch()
    working.join()

    found = now(made)
    assert (found.status, found.error) == ("complete", None)
    assert found.output["output"] == "done\n"
