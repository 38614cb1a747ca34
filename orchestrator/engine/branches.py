"""Branches: parts of a workflow that wait at the same time.

Their code runs in turn, in one thread and in one order; while one waits for a time, an event, a
person, an agent or a child, the others go on. A replay comes to each branch's own steps in their own
order, whatever came first the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrator.engine.control import Held, Undoing

if TYPE_CHECKING:
    from orchestrator.engine.replay import Replay
    from orchestrator.engine.runner import Runner
    from orchestrator.engine.store import Claimed


class Branches:
    """`run` each branch, then `rest`: it comes back only when none of them waits.

    What a branch raises is raised at once. When that ends the workflow, the others end with it.
    """

    def __init__(self, steps: Replay, runner: Runner) -> None:
        self._steps, self._runner = steps, runner
        self._waits: list[int] = []

    def run(self, name: str, act: Callable[[], object]) -> bool:
        """Go on with this branch as far as it comes. True when it has come to its end."""
        with self._steps.on_branch(name) as track:
            try:
                act()
            except Held as held:
                self._waits.append(held.position)
                return False
            except Undoing:  # the others have something to undo too
                return False
            track.check_complete()
        return True

    def rest(self) -> None:
        """Leave until the first of the branches that wait can go on."""
        if self._runner.claimed.undoing:
            raise Undoing
        if self._waits:
            self._runner.hold(self._waits)


def abandon(held: Claimed) -> None:
    """A branch has failed, and the workflow with it: nobody waits for the others any more."""
    from orchestrator import gates, lifecycle  # they know this module
    from orchestrator.models import Workflow

    gates.close_gates(held.id)
    ended = Workflow.objects.get(pk=held.id)
    lifecycle.stop_what_it_started(ended, held.created_by_id, only_awaited=True)
