"""One log, told by the server for the first paint and by the chat's script while it lives.

`frontend/src/chat/shared-log.test.ts` tells the same events in the same words.
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
#: The events as REST shows them, the frames that sockets send of them, and the conversation.
LOG: dict[str, Any] = json.loads(SAMPLE.read_text(encoding="utf-8"))


@pytest.fixture
def written(session: Session) -> Session:
    """The sample as rows of a session."""
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


def test_the_server_tells_the_log_as_the_script_does(written):
    lines = fold(build_transcript(newest_window(written)), is_idle=True)

    assert [words_of(line) for line in lines] == LOG["told"]


def test_the_log_has_every_type_of_event_that_a_conversation_shows():
    assert {event["type"] for event in LOG["events"]} == set(SessionEvent.Type.values)


def test_sockets_send_the_frames_that_the_script_is_tried_with(written):
    frames = [_shown(event_frame(event)) for event in written.events.order_by("seq")]

    assert frames == LOG["frames"]


def _shown(frame: dict[str, Any]) -> dict[str, Any]:
    """Without the session, which the sample does not have."""
    metadata = {name: value for name, value in frame["metadata"].items() if name != "session_id"}
    if event := metadata.get("event"):
        metadata["event"] = {name: value for name, value in event.items() if name != "session_id"}
    return {**frame, "metadata": metadata}
