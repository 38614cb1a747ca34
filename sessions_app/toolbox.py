"""Hands a tool what it may use: its session's sandbox, a way to speak, a sign to stop."""

from __future__ import annotations

import threading

from sessions_app.models import ToolExecution
from sessions_app.stream import send_tool_output
from sessions_app.turn import Turn
from tools_app.registry import ToolContext


def tool_context(
    turn: Turn, call: ToolExecution, *, stopped: threading.Event, deadline: float
) -> ToolContext:
    raise NotImplementedError
