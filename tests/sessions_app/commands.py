"""Helpers that run management commands, interrupt them, and serve a lane beside them."""

from __future__ import annotations

import json
import threading
from io import StringIO
from queue import SimpleQueue

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from core.pg_listen import subscribe
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import WAKE_CHANNEL
from sessions_app.models import Session
from tests.sessions_app.conftest import OWNER, serve


def agent_command(*words: object, out: StringIO | None = None) -> str:
    written = out or StringIO()
    call_command("agent", *map(str, words), stdout=written)
    return written.getvalue().rstrip("\n")


def as_json(*words: object) -> list[dict]:
    return [json.loads(line) for line in agent_command(*words, "--json").splitlines()]


def command_error(*words: object) -> str:
    with pytest.raises(CommandError) as caught:
        agent_command(*words)
    said = str(caught.value)
    assert "\n" not in said
    return said


def send(session: Session, text: str = "Hi", *more: object) -> tuple[object, ...]:
    return ("session", "send", "--session", session.pk, "--message", text, *more)


def lanes_claim(session: Session) -> str:
    agent_command(*send(session))
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    return str(claim.run_id)


class InterruptedOutput(StringIO):
    """Raises KeyboardInterrupt after the nth write and signals the first write."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.began, self._left = threading.Event(), number

    def write(self, text: str) -> int:
        written = super().write(text)
        self.began.set()
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt
        return written


class Worker:
    """Serves a lane on its own thread whenever the lane is woken."""

    def __init__(self, session: Session) -> None:
        self._session_id = session.pk
        self._wake_ups: SimpleQueue[str | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> None:
        self._subscription = subscribe(WAKE_CHANNEL, self._wake_ups.put)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._subscription.close()
        self._wake_ups.put(None)
        self._thread.join(30)

    def _work(self) -> None:
        try:
            while self._wake_ups.get() is not None:
                serve(self._session_id)
        finally:
            connection.close()
