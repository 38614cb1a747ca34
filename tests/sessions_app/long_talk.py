"""A demo model with a small window, and helpers that give a session a long log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from django.utils import timezone

from agents.model_catalog import OVERRIDES, ModelInfo
from agents.providers.base import Delta, ModelRequest, estimate_request
from agents.providers.demo import DemoProvider
from sessions_app.harness.loop import run
from sessions_app.lanes import run_queue
from sessions_app.lanes.signals import StopSignal
from sessions_app.log.writer import NewEvent, import_events
from sessions_app.models import Session, SessionEvent

HOLDER = uuid4()


class Watched(DemoProvider):
    """Runs the demo without delays and records its requests."""

    def __init__(self) -> None:
        super().__init__(delay_seconds=0)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        self.requests.append(request)
        return super().stream(request)

    @property
    def largest(self) -> int:
        return max(estimate_request(request) for request in self.requests)

    @property
    def answered(self) -> list[ModelRequest]:
        """Return the requests for answers, without those for summaries and memories."""
        return [r for r in self.requests if not r.instructions.startswith("You keep the records")]


@contextmanager
def window_of(tokens: int) -> Iterator[None]:
    """Give the demo model a window of this size."""
    known = OVERRIDES[("demo", "demo")]
    OVERRIDES[("demo", "demo")] = ModelInfo(
        provider="demo",
        name="demo",
        window=tokens,
        max_output=tokens // 8,
        input_price=known.input_price,
        output_price=known.output_price,
    )
    try:
        yield
    finally:
        OVERRIDES[("demo", "demo")] = known


def say(session: Session, text: str, author_id: Any = None) -> int:
    """Send a message that waits for its run and return its seq."""
    event = NewEvent(type=SessionEvent.Type.USER_MESSAGE, payload={"text": text})
    return run_queue.accept(session.pk, event, author_id=author_id).seq


def tell(session: Session, text: str, author_id: Any = None) -> None:
    """Send a message and let the agent answer it in this thread."""
    say(session, text, author_id)
    serve(session)


def serve(session: Session) -> None:
    claim = run_queue.claim(session.pk, HOLDER)
    while claim:
        claim = run(claim, HOLDER, StopSignal())


def write_exchanges(session: Session, texts: list[str]) -> None:
    """Write messages and answers into the log as if runs had written them."""
    session.refresh_from_db()
    kinds = (SessionEvent.Type.USER_MESSAGE, SessionEvent.Type.AGENT_MESSAGE)
    spoken = [(kind, text) for text in texts for kind in kinds]
    now = timezone.now()
    SessionEvent.objects.bulk_create(
        SessionEvent(
            workspace_id=session.workspace_id,
            session=session,
            seq=session.last_seq + nth,
            type=kind,
            payload={"text": text},
            processed_at=now,
        )
        for nth, (kind, text) in enumerate(spoken, start=1)
    )
    Session.objects.filter(pk=session.pk).update(last_seq=session.last_seq + len(spoken))


def give_past(session: Session, count: int, words: str = "some words about the yard") -> None:
    """Import this many messages, alternately from a person and from the agent."""
    kinds = (SessionEvent.Type.USER_MESSAGE, SessionEvent.Type.AGENT_MESSAGE)
    past = [
        {"type": kinds[nth % 2], "payload": {"text": f"message {nth}: {words}"}}
        for nth in range(count)
    ]
    import_events(session.pk, past, None)
    session.refresh_from_db()
