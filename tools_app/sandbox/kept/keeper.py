"""The process that keeps one command: it runs it within its limits and writes down what becomes of it.

It belongs to nobody: whoever started it may die, and whoever comes next reads the same record. It
ends with its command, which it ends when its time is up or when it is asked to, with all processes
and with the container that they ran in.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import django
from django.conf import settings

from config.faults import Fault, SandboxUnavailable
from tools_app.clip import clip_for_model
from tools_app.sandbox import fill_secrets
from tools_app.sandbox.container import ContainerSandbox
from tools_app.sandbox.container.lifecycle import COMMANDS, remove_containers
from tools_app.sandbox.kept.record import Ending, Record

#: Characters of the output that stay when the command is over.
KEPT = 200_000


def keep(record: Record, stopped: threading.Event) -> None:
    """Run the command of this record, unless it has or had a keeper."""
    if not record.claim():
        return
    # Claimed first and looked for second: who asked meanwhile finds the claim, or is found here.
    if record.stop_reason() is not None:
        record.end(Ending(ended_by="stop", reason=record.stop_reason() or ""))
        return
    record.end(run(record, stopped))


def run(record: Record, stopped: threading.Event) -> Ending:
    order, began_at = record.order(), time.time()
    sandbox = order.sandbox(fill)
    told = Ending(began_at=began_at)
    try:
        with record.journal() as write:
            result = sandbox.execute(
                order.command, seconds=order.seconds, on_output=write, stopped=stopped
            )
        told = told.model_copy(
            update={
                "exit_code": result.exit_code,
                "ended_by": result.ended_by,
                "output": clip_for_model(result.output, KEPT),
            }
        )
    except Fault as fault:
        told = told.model_copy(update={"fault": fault.code, "detail": fault.detail})
    ended_at = time.time()
    if container := sandbox.container_id if isinstance(sandbox, ContainerSandbox) else "":
        # Perhaps nobody else lives who would take it away.
        with suppress(Fault):
            remove_containers(order.session_id, role=COMMANDS)
    reason = record.stop_reason() or ""
    return told.model_copy(update={"reason": reason, "container": container, "ended_at": ended_at})


def fill(workspace_id: UUID, value: str, host: str) -> str:
    """Most commands name no secret, and need no rows."""
    if "{{" in value:
        django.setup()
    return fill_secrets(workspace_id, value, host)


def main() -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = Path(sys.argv[1])
    # What is wrong with the settings comes to light here, while nothing is claimed.
    if not folder.is_relative_to(settings.DATA_DIR):
        raise SandboxUnavailable(f"{folder} does not belong to this installation.")
    keep(Record(folder=folder), stopped)


if __name__ == "__main__":
    main()
