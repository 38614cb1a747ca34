"""The keeper: a process that runs one command within its limits and records its result.

It depends on no other process: the one that started it may die, and any other can read the record.
It ends the command, with all its processes and their container, when its time is up or when it is
asked to, and then exits.
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

from core.exceptions import Fault
from tools_app.exceptions import SandboxUnavailable
from tools_app.sandbox.container.lifecycle import COMMANDS, remove_containers
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.provisioning import fill_secrets
from tools_app.sandbox.tasks.record import Ending, Record
from tools_app.taint import clip_for_model

#: Characters of the output that the record keeps when the command is over.
KEPT = 200_000


def run_if_unclaimed(record: Record, stopped: threading.Event) -> None:
    """Run the command of this record, unless it has or had a keeper."""
    if not record.claim():
        return
    # The claim comes first: a process that asks for the end meanwhile finds the claim, or its
    # request is found here.
    if record.stop_reason() is not None:
        record.end(Ending(ended_by="stop", reason=record.stop_reason() or ""))
        return
    record.end(run(record, stopped))


def run(record: Record, stopped: threading.Event) -> Ending:
    order, began_at = record.order(), time.time()
    sandbox = order.sandbox(fill)
    ending = Ending(began_at=began_at)
    try:
        with record.journal() as write:
            result = sandbox.execute(
                order.command, seconds=order.seconds, on_output=write, stopped=stopped
            )
        ending = ending.model_copy(
            update={
                "exit_code": result.exit_code,
                "ended_by": result.ended_by,
                "output": clip_for_model(result.output, KEPT),
            }
        )
    except Fault as fault:
        ending = ending.model_copy(update={"fault": fault.code, "detail": fault.detail})
    ended_at = time.time()
    if container := sandbox.container_id if isinstance(sandbox, ContainerSandbox) else "":
        # Perhaps no other process is left to remove it.
        with suppress(Fault):
            remove_containers(order.session_id, role=COMMANDS)
    reason = record.stop_reason() or ""
    return ending.model_copy(
        update={"reason": reason, "container": container, "ended_at": ended_at}
    )


def fill(workspace_id: UUID, value: str, host: str) -> str:
    """Fill in secrets. Set Django up only for a command that names one, which most do not."""
    if "{{" in value:
        django.setup()
    return fill_secrets(workspace_id, value, host)


def main() -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder = Path(sys.argv[1])
    # Reading the settings here raises what is wrong with them before anything is claimed.
    if not folder.is_relative_to(settings.DATA_DIR):
        raise SandboxUnavailable(f"{folder} does not belong to this installation.")
    run_if_unclaimed(Record(folder=folder), stopped)


if __name__ == "__main__":
    main()
