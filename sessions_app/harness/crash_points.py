"""Named points of a run at which tests can kill the process."""

from __future__ import annotations

from collections.abc import Callable


def _nothing(name: str) -> None:
    """Do nothing."""


#: Fault tests replace this with a function that kills the process.
on_reach: Callable[[str], None] = _nothing


def crash_point(name: str) -> None:
    on_reach(name)
