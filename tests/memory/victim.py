"""Runs a job on memory that kills itself midway: `python -m tests.memory.victim JOB NUMBER`.

The process dies before its NUMBERth writing statement; if it finishes, it prints their count.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import django

django.setup()

from django.db import connection

from memory.archive import import_archive, read_archive
from memory.embeddings import move
from memory.models import MemoryEntry
from memory.ownership import Owner

WRITES = ("INSERT", "UPDATE", "DELETE", "CREATE", "SAVEPOINT", "RELEASE")


class KillBeforeWrite:
    """Counts writing statements and kills the process before one of them."""

    def __init__(self, last: int) -> None:
        self.last, self.seen = last, 0

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        if sql.lstrip().upper().startswith(WRITES):
            self.seen += 1
            if self.seen == self.last:
                os.kill(os.getpid(), signal.SIGKILL)
        return execute(sql, params, many, context)


def work(name: str, workspace_id: UUID, agent_id: UUID) -> None:
    if name == "reembed":
        move(workspace_id, os.environ["MODEL"])
        return
    owner = Owner(workspace_id=workspace_id, scope=MemoryEntry.Scope.AGENT, owner_id=agent_id)
    with Path(os.environ["ARCHIVE"]).open("rb") as file:
        import_archive(owner, read_archive(file), by=None, overwrite=True)


if __name__ == "__main__":
    killer = KillBeforeWrite(int(sys.argv[2]))
    with connection.execute_wrapper(killer):
        work(sys.argv[1], UUID(os.environ["WORKSPACE"]), UUID(os.environ["AGENT"]))
    sys.stdout.write(str(killer.seen))
