"""Tests that commands run in the workspace's default environment unless another is chosen."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from agents.environments import change_environment, default_environment
from orchestrator.models import Terminal
from orchestrator.terminals.terminals import sandbox_of
from sessions_app.models import ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.orchestrator.canvas.test_runs import go, one_tool
from tests.sessions_app.conftest import serve as serve_lane
from tests.sessions_app.stage import say
from tests.tools_app.conftest import data_dir, needs_bwrap
from tools_app.policy.storage import save_tool_policy
from tools_app.sandbox.local import LocalSandbox

__all__ = ["data_dir"]
pytestmark = [
    needs_bwrap,
    pytest.mark.usefixtures("data_dir"),
    # Tools run on their own threads, which see only committed data.
    pytest.mark.django_db(transaction=True),
]
CPU_SECONDS = 33
#: Prints the limit on processor time.
LOOK = "ulimit -t"


@pytest.fixture
def agent(workspace, owner):
    """Create an agent that may run commands, in a default environment with its own limit."""
    said = {"limits": {"cpu_seconds": CPU_SECONDS}}
    change_environment(default_environment(workspace.pk), said)
    fields = {"name": "Walker", "provider": "demo", "model": "demo"}
    made = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
    save_tool_policy(made.pk, {"approved_tools": ["exec"]})
    return made


def test_a_run_uses_the_default_environment(agent, principal):
    session, _ = get_or_create_session(agent=agent)
    say(session, principal, f"run {LOOK}")
    serve_lane(session.pk)

    assert ToolExecution.objects.get().output == f"{CPU_SECONDS}\n[exit code 0]"


def test_a_terminal_uses_the_default_environment(agent):
    session, _ = get_or_create_session(agent=agent)

    made = sandbox_of(Terminal(session=session))

    assert isinstance(made, LocalSandbox)
    assert made.limits.cpu_seconds == CPU_SECONDS


def test_a_node_of_a_canvas_uses_the_default_environment(agent, begin):
    one_tool(agent, "exec", command=LOOK)

    done = go(begin({"agent": str(agent.pk)}, name="canvas"))

    assert done.output["output"] == f"{CPU_SECONDS}\n[exit code 0]"
