"""Hands a tool what it may use: its session's sandbox, a way to speak, a sign to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agents.environments import environment_or_default
from sessions_app.models import ToolExecution
from sessions_app.sandbox_purses import check_affordable
from sessions_app.statements import hold_lane
from sessions_app.turn import Turn
from tenants.off_loop import let_go
from tools_app.registry import ToolContext
from tools_app.sandbox import LazySandbox, Sandbox, SessionFolder, provision


def tool_context(
    turn: Turn,
    call: ToolExecution,
    *,
    stopped: threading.Event,
    deadline: float,
    emit: Callable[[str], None],
) -> ToolContext:
    return ToolContext(
        workspace_id=turn.workspace_id,
        session_id=turn.session_id,
        agent_id=turn.agent_id,
        user_id=turn.user_id,
        about_id=turn.about_id,
        run_id=turn.claim.run_id,
        call_id=call.tool_use_id,
        sandbox=LazySandbox(lambda: _provision(turn)),
        mounts=turn.mounts,
        judge=lambda input: turn.policy.decide_call(call.name, input).decision,
        emit=emit,
        fence=lambda: _fence(turn),
        stopped=stopped,
        deadline=deadline,
    )


def _fence(turn: Turn) -> None:
    """Lock the lane under this run's epoch. What a lost worker would still write is refused."""
    hold_lane(turn.session_id, turn.claim.epoch)


def _provision(turn: Turn) -> Sandbox:
    """The session's sandbox, as its environment describes it, if it can be paid."""
    check_affordable(turn.session_id)
    environment = environment_or_default(turn.workspace_id, turn.environment_id)
    let_go()
    folder = SessionFolder(workspace_id=turn.workspace_id, session_id=turn.session_id)
    return provision(environment, folder, turn.mounts)
