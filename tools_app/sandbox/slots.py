"""Limits how many commands and containers one workspace has at once on this machine.

A slot is a locked file. The kernel unlocks it with the process that holds it, so a worker that is
killed gives its slots back, and no database is needed.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from django.conf import settings

from tools_app.exceptions import ToolStopped, TooManySandboxes
from tools_app.files import SessionFolder
from tools_app.sandbox.container.claims import session_dir, sessions_with_claims

#: How long a command waits for a slot, and how often it looks.
WAIT_SECONDS, POLL_SECONDS = 30.0, 0.1


@contextmanager
def command_slot(
    workspace_id: UUID, stopped: threading.Event | None = None, *, seconds: float | None = None
) -> Iterator[int]:
    """Hold one of the workspace's slots, waiting for it. Raise TooManySandboxes if none becomes free.

    Yield its open file. A process that is given this file holds the slot too, until its own end.
    """
    until = time.monotonic() + (WAIT_SECONDS if seconds is None else seconds)
    while (handle := _take(workspace_id)) is None:
        if stopped and stopped.is_set():
            raise ToolStopped
        if time.monotonic() >= until:
            raise TooManySandboxes(
                f"The agents and tasks of this workspace already run {settings.SANDBOXES_PER_WORKSPACE} "
                "commands, which is the limit. Try again when one has ended."
            )
        time.sleep(POLL_SECONDS)
    try:
        yield handle
    finally:
        os.close(handle)


def _take(workspace_id: UUID) -> int | None:
    """Lock a free slot and return its open file, or None if all are in use."""
    folder = slots_dir(workspace_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(settings.SANDBOXES_PER_WORKSPACE):
        handle = os.open(folder / str(number), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
        else:
            return handle
    return None


def check_containers(folder: SessionFolder) -> None:
    """Raise TooManySandboxes if this session's container would be one too many."""
    if session_dir(folder.session_id).exists():
        return
    workspace_id = folder.workspace_id
    held = sum(
        SessionFolder(workspace_id=workspace_id, session_id=session_id).root.exists()
        for session_id in sessions_with_claims()
    )
    if held >= settings.SANDBOXES_PER_WORKSPACE:
        raise TooManySandboxes(
            f"This workspace already has {settings.SANDBOXES_PER_WORKSPACE} containers, which is "
            "the limit. An unused one is removed after a while."
        )


def slots_dir(workspace_id: UUID) -> Path:
    return Path(settings.DATA_DIR) / "slots" / str(workspace_id)
