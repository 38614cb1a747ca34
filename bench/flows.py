"""The measured workflows: one with many empty steps, and one that only reports when it began."""

from __future__ import annotations

import time
from typing import Any


def define() -> None:
    from orchestrator import Workflow, workflow

    class Many(Workflow):
        def run(self, event: Any, step: Any) -> int:
            for nth in range(event.payload["count"]):
                step.do("step", lambda nth=nth: nth)
            return 1

    class Start(Workflow):
        def run(self, event: Any, step: Any) -> float:
            return time.time()

    workflow(name="bench-steps")(Many)
    workflow(name="bench-start")(Start)
