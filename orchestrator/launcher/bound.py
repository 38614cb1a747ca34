"""Runs a program that is killed with its parent: `bound.py PARENT PROGRAM [ARGUMENT…]`.

It is a separate program, because code between fork and exec is not safe in a process with
threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 (the parent is `up`)


if __name__ == "__main__":
    main()
