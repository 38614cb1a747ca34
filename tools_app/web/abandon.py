"""Runs work that cannot be interrupted, and walks away from it when the call is stopped."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar

from tools_app.context import LOOK_UP_SECONDS, ToolContext

Answer = TypeVar("Answer")


def run_until_stopped(work: Callable[[], Answer], context: ToolContext) -> Answer:
    """The answer of the work, or the context's fault as soon as it is stopped or out of time.

    The work must end by itself some time later, have no effect, and touch no database: name
    servers and TLS handshakes cannot be broken off from outside.
    """
    answers: list[Answer] = []
    faults: list[BaseException] = []
    done = Event()

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as fault:  # noqa: BLE001 - raised again in the caller's thread
            faults.append(fault)
        finally:
            done.set()

    Thread(target=run, name=f"tool-{context.call_id}", daemon=True).start()
    while not done.wait(LOOK_UP_SECONDS):
        context.check_stopped()
    if faults:
        raise faults[0]
    return answers[0]
