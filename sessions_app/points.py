"""Named points of a run at which tests may let the process die."""

from __future__ import annotations

from collections.abc import Callable


def _nothing(name: str) -> None:
    """Nobody watches."""


#: Replaced by fault tests, which kill the process here.
on_reach: Callable[[str], None] = _nothing


def reached(name: str) -> None:
    on_reach(name)
