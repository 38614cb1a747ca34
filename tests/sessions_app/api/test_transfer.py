"""Tests of exporting a session's log and importing it again over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient

from agents.providers.base import TextDelta
from sessions_app.api import sessions
from sessions_app.log.transfer import export
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Run, Session, SessionEvent
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.api.test_messages import say as say_over_rest
from tests.sessions_app.api.test_sessions import at
from tests.sessions_app.conftest import serve
from tests.sessions_app.live.stream_client import say

IMPORT = "/api/v1/sessions/import/"


def facts(session: Session) -> list[tuple]:
    """Return what an export carries. Ids and runs belong to one session only."""
    rows = session.events.order_by("seq")
    return [(e.seq, e.type, e.payload, e.created_at) for e in rows]


def send(api, raw: bytes, query: str = "?agent=Tester"):
    return api.post(f"{IMPORT}{query}", raw, content_type="application/x-ndjson")


async def test_the_export_streams_every_event_as_a_line(async_db, session, secret, monkeypatch):
    monkeypatch.setattr(sessions, "PAGE_ROWS", 3)
    await sync_to_async(say)(session, *(f"Grüße {n} \u2028 \\u0000" for n in range(8)))
    path = at(session, "export/")
    answer: Any = await AsyncClient().get(path, headers={"x-api-key": secret})

    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/x-ndjson"
    assert f"session-{session.pk}.jsonl" in answer["Content-Disposition"]
    parts = [part async for part in answer.streaming_content]
    assert len(parts) == 3
    lines = b"".join(parts).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 9))
    assert b"".join(parts) == b"".join(await sync_to_async(lambda: [*export(session)])())


def test_a_session_survives_export_and_import_unchanged(api, session, agent, script):
    script([TextDelta(text="Hello you.")])
    say_over_rest(api, session, "Hello \\u0000")
    serve(session.pk)
    session.refresh_from_db()
    taken = b"".join(export(session))
    answer = send(api, taken, "?agent=Tester&title=Back")

    assert answer.status_code == 201, answer.content
    brought = Session.objects.get(pk=answer.json()["id"])
    assert facts(brought) == facts(session)
    assert (brought.title, brought.last_seq, brought.status) == ("Back", session.last_seq, "idle")
    again = send(api, b"".join(export(brought)))
    assert facts(Session.objects.get(pk=again.json()["id"])) == facts(session)


def test_an_imported_session_runs_nothing_and_accepts_messages(api, session, agent, script):
    say_over_rest(api, session, "never answered")
    brought = Session.objects.get(pk=send(api, b"".join(export(session))).json()["id"])

    assert not Run.objects.filter(session=brought).exists()
    assert not brought.events.filter(processed_at=None).exists()
    provider = script([TextDelta(text="Now I did.")])
    say_over_rest(api, brought, "Did you read it?")
    serve(brought.pk)
    assert "never answered" in provider.requests[0].messages[0].text
    said = api.get(at(brought, "messages/")).json()["results"]
    assert said[-1]["text"] == "Now I did."


def test_an_import_accepts_an_uploaded_file(api, session, agent):
    say(session, "one", "two")
    file = SimpleUploadedFile("s.jsonl", b"".join(export(session)))
    answer = api.post(IMPORT, {"agent": str(agent.pk), "file": file}, format="multipart")

    assert answer.status_code == 201, answer.content
    assert facts(Session.objects.get(pk=answer.json()["id"])) == facts(session)


LINE = b'{"type": "user.message", "payload": {"text": "hi"}}\n'
CHILD = (
    b'{"type": "session.child_idle", "payload": {"child_session_id": "c", "status": "completed",'
    b' "result": "done", "shown": true}}\n'
)


CLIMBING = (
    b'{"type": "user.message", "payload": {"text": "x", "attachments": '
    b'[{"name": "a", "path": "../../me/"}]}}\n'
)


@pytest.mark.parametrize(
    "raw",
    [
        LINE + b"{broken\n",
        LINE + b"[]\n",
        LINE + b'{"type": "no.such", "payload": {}}\n',
        LINE + b'{"type": "user.message", "payload": {}}\n',
        LINE + b'{"type": "user.message", "payload": {"text": 7}}\n',
        LINE + b'{"type": "user.message", "payload": {"text": "x", "attachments": [{}]}}\n',
        LINE + CLIMBING,
        LINE + b'{"type": "agent.tool_use", "payload": {"tool_use_id": "t"}}\n',
        LINE + b'{"type": "agent.tool_result", "payload": {"tool_use_id": "t"}}\n',
        LINE + b'{"type": "session.child_idle", "payload": {"shown": true}}\n',
        LINE + CHILD.replace(b'"done"', b"7"),
        LINE + CHILD.replace(b"true", b'"yes"'),
        LINE + b'{"type": "user.message", "payload": {"text": "x"}, "created_at": "soon"}\n',
        LINE + b'{"type": "session.error", "payload": {"n": 1' + b"0" * 30 + b"}}\n",
        LINE + b'{"type": "session.error", "payload": ' + b"[" * 9000 + b"}\n",
        LINE + b"\xff\xfe\n",
    ],
)
def test_an_invalid_line_is_named_and_nothing_is_imported(api, agent, raw):
    answer = send(api, raw)

    assert_problem(answer, 400, "invalid")
    assert "Line 2" in answer.json()["detail"]
    assert not Session.objects.exists()


def test_the_model_sees_an_imported_sub_agent_result(api, agent, script):
    model = script([TextDelta(text="Well.")])
    brought = Session.objects.get(pk=send(api, LINE + CHILD).json()["id"])
    say_over_rest(api, brought, "and?")
    serve(brought.pk)

    assert "done" in model.requests[0].messages[0].text


def test_nul_characters_in_an_import_are_replaced(api, agent):
    line = b'{"type": "user.message", "payload": {"text": "a\\u0000b \\\\u0000"}}\n'
    made = send(api, line).json()["id"]

    assert SessionEvent.objects.get(session=made).payload["text"] == "a\ufffdb \\u0000"


def test_an_import_needs_an_agent_of_its_own_workspace(api, foreign_api, agent):
    assert_problem(send(api, LINE, ""), 400, "invalid")
    assert_problem(send(api, LINE, "?agent=Nobody"), 404, "not_found")
    assert_problem(send(foreign_api, LINE, f"?agent={agent.pk}"), 404, "not_found")
    assert_problem(send(api, LINE, f"?agent=Tester&title={'x' * 201}"), 400, "invalid")


@pytest.mark.parametrize(
    "name", ["application/x-ndjson", "application/jsonl", "application/json", "text/plain"]
)
def test_an_export_is_accepted_under_each_content_type(api, session, agent, name):
    say(session, "one", "two")
    answer = api.post(IMPORT, b"".join(export(session)), content_type=name)

    assert answer.status_code == 201, answer.content
    assert answer.json()["agent"] == str(agent.pk)
    assert facts(Session.objects.get(pk=answer.json()["id"])) == facts(session)


def test_importing_an_export_of_another_workspace_explains_how_to_name_an_agent(
    foreign_api, session
):
    say(session, "one")
    answer = foreign_api.post(
        IMPORT, b"".join(export(session)), content_type="application/x-ndjson"
    )

    assert_problem(answer, 400, "invalid")
    assert "?agent=" in answer.json()["detail"]


def test_an_import_that_is_far_too_large_is_refused(api, agent, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_IMPORT_BYTES", 10)

    assert_problem(send(api, LINE), 413, "too_large")


def test_an_empty_import_is_an_empty_session(api, agent):
    answer = send(api, b"")

    assert (answer.status_code, answer.json()["last_seq"]) == (201, 0)


def test_a_stranger_cannot_export_a_session(foreign_api, session):
    append_events(session.pk, [NewEvent(type=SessionEvent.Type.ERROR, payload={})])

    assert_problem(foreign_api.get(at(session, "export/")), 404, "not_found")
