"""The tool that runs commands in the sandbox."""

from __future__ import annotations

import time

from pydantic import Field

from tools_app.exceptions import ToolFailed
from tools_app.outflow import of_command
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool
from tools_app.sandbox.base import ExecResult

LONGEST_SECONDS = 600

_ENDINGS = {
    "time": "The command was stopped after {took:.0f} s, when its time was up.",
    "cpu": "The command was stopped: it exceeded its limit of processor time.",
    "memory": "The command was stopped: it exceeded its limit of memory.",
    "disk": "The command was stopped: it stored more than the session or its workspace may, or the "
    "disk is nearly full. Delete files that you do not need.",
    "stop": "The command was stopped.",
}


class RunCommand(Arguments):
    command: str = Field(min_length=1, max_length=30_000, description="One bash command line.")
    seconds: int = Field(
        default=60, ge=1, le=LONGEST_SECONDS, description="When to give up, 60 if left out."
    )


@tool(
    name="exec",
    category=Category.EXEC,
    permission="always_ask",
    effects=[Effect.COMMANDS, Effect.FILES],
    outflow=of_command,
    # The sandbox ends a command by its own clock; this leaves time to return its output.
    seconds=LONGEST_SECONDS + 30,
    title="Run a command",
)
def run_command(arguments: RunCommand, context: ToolContext) -> str:
    """Run a bash command in the session's sandbox and return its output and exit code.

    It starts in the workspace. Nothing that it starts goes on when it ends; files stay.
    """
    began = time.monotonic()
    result = context.sandbox.execute(
        arguments.command,
        seconds=min(arguments.seconds, context.remaining()),
        on_output=context.emit,
        stopped=context.stopped,
    )
    if result.ended_by == "stop":
        context.check_stopped()
    if result.exit_code is None:
        raise ToolFailed(_ending(result, took=time.monotonic() - began))
    return f"{_with_newline(result.output)}[exit code {result.exit_code}]"


def _ending(result: ExecResult, *, took: float) -> str:
    """Describe the end with the measured time: the environment may allow less than was requested."""
    ending = _ENDINGS[result.ended_by].format(took=took)
    return f"{ending} Its output until then:\n{result.output}" if result.output else ending


def _with_newline(output: str) -> str:
    return output if not output or output.endswith("\n") else f"{output}\n"
