"""Tests that the server and the chat's script render one sample log in the same words.

`frontend/src/chat/shared-log.test.ts` renders the same events.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessions_app.live.frames import event_frame
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.transcript import (
    Call,
    Compaction,
    FromAgent,
    FromPerson,
    Note,
    Steps,
    TranscriptLine,
    Trouble,
    build_transcript,
    fold,
    newest_window,
)
from tenants.models import User

SAMPLE = Path(__file__).resolve().parents[3] / "frontend/src/chat/samples/one_log.json"
#: The events as REST shows them, their frames on sockets, and the rendered transcript.
LOG: dict[str, Any] = json.loads(SAMPLE.read_text(encoding="utf-8"))


@pytest.fixture
def sample_session(session: Session) -> Session:
    """Store the sample as events of a session."""
    names = {event["author"] for event in LOG["events"] if event["author"]}
    people = {
        name: User.objects.create(email=f"{name}@example.com".lower(), name=name) for name in names
    }
    SessionEvent.objects.bulk_create(
        SessionEvent(
            workspace_id=session.workspace_id,
            session=session,
            created_by=people.get(event["author"]),
            **{name: value for name, value in event.items() if name != "author"},
        )
        for event in LOG["events"]
    )
    Session.objects.filter(pk=session.pk).update(last_seq=len(LOG["events"]))
    session.refresh_from_db()
    return session


def words_of(line: TranscriptLine) -> str:
    match line:
        case FromPerson():
            files = f" [{', '.join(one.name for one in line.files)}]" if line.files else ""
            return f"> {line.author}: {line.text}{files}{' (joined)' if line.steered else ''}"
        case FromAgent():
            return line.text
        case Steps():
            return f"{len(line.calls)} steps, {line.failed} failed"
        case Call(child=child) if child:
            return f"({child.title} {child.status}: {child.result})"
        case Call():
            return f"[{line.words.title}: {line.state}] {line.rule}"
        case Trouble():
            return f"! {line.message}{' (retry)' if line.retryable else ''}"
        case Compaction():
            return f"= {line.text}"
        case Note():
            return f"- {line.text}"
        case _:
            raise AssertionError(line)


def test_the_server_renders_the_log_as_the_script_does(sample_session):
    lines = fold(build_transcript(newest_window(sample_session)), is_idle=True)

    assert [words_of(line) for line in lines] == LOG["told"]


def test_the_sample_has_every_type_of_event():
    assert {event["type"] for event in LOG["events"]} == set(SessionEvent.Type.values)


def test_the_frames_of_the_sample_are_those_that_sockets_send(sample_session):
    frames = [_shown(event_frame(event)) for event in sample_session.events.order_by("seq")]

    assert frames == LOG["frames"]


def _shown(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the frame without the session, which the sample does not have."""
    metadata = {name: value for name, value in frame["metadata"].items() if name != "session_id"}
    if event := metadata.get("event"):
        metadata["event"] = {name: value for name, value in event.items() if name != "session_id"}
    return {**frame, "metadata": metadata}
