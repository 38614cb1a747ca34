"""Keeps the log files of the children small."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LARGEST = 10_000_000


def keep_small(folder: Path) -> None:
    """Move what is in a large log to a second file. Its writer appends, so it need not reopen."""
    for log in folder.glob("*.log"):
        if log.stat().st_size > LARGEST:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)
