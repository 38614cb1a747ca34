"""The workflow `chaos`: several steps that take a while and append to a file."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from django.conf import settings

from orchestrator import Event, Steps, Workflow, workflow


@workflow(name="chaos")
class Chaos(Workflow):
    """Appends every execution of a step's body to the file `bodies`."""

    def run(self, event: Event, step: Steps) -> Any:
        def body(number: int) -> str:
            with (settings.DATA_DIR / "bodies").open("a") as file:
                file.write(f"{event.key} {number} {step.attempt}\n")
            time.sleep(event.payload["seconds"])
            return f"{event.key}:{number}"

        count = event.payload["steps"]
        return [
            step.do(f"step {number}", partial(body, number), retries=200, delay=0)
            for number in range(count)
        ]
