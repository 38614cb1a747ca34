"""Tests exactly which statements the frequent requests of programs send, transactions included."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from rest_framework.test import APIClient

from core.server import OneThreadHandler
from tenants.keys import issue_key
from tests.conftest import key_client
from tests.sessions_app.api.test_sessions import at
from tests.tenants.cached_keys import cached_keys

RUNTIME = "/api/v1/runtime/"
LINE = re.compile(r"^(?=\d{4}-\d\d-\d\d )", re.MULTILINE)
SENT = re.compile(
    r'\tF\t\d+\t(?:Query\t\s*"(?P<text>.*)"|Bind\t\s*"[^"]*" "(?P<name>\w+)")', re.DOTALL
)
PLANNED = "SELECT name, statement FROM pg_prepared_statements"
#: Viewers are notified with a statement for many sessions, which is not counted here.
NOTIFIES = "SELECT pg_notify($1, payload)"

SEND = "SELECT sid, seq, run, event_id, replayed FROM session_send("
CLAIM = "INSERT INTO tenants_idempotentanswer"
KEEP = "UPDATE tenants_idempotentanswer"
BEGIN, COMMIT = "BEGIN", "COMMIT"
EVENT = 'SELECT "session_messages"'
SESSION = 'SELECT "agent_sessions"'
RUN = 'SELECT "agent_run_queue"'
AGENT = 'SELECT "agents_agent"'


def statements_of(call: Callable[[], object]) -> list[str]:
    """Return what the call sends over this thread's connection, traced at the protocol."""
    connection.ensure_connection()
    protocol = connection.connection.pgconn
    with tempfile.TemporaryFile("w+") as file:
        protocol.trace(file.fileno())
        try:
            call()
        finally:
            protocol.untrace()
        file.seek(0)
        trace = file.read()
    planned = dict(connection.connection.execute(PLANNED).fetchall())
    found = [sent for line in LINE.split(trace) if (sent := SENT.search(line))]
    texts = [sent["text"] or planned[sent["name"]] for sent in found]
    tidy = [" ".join(text.split()) for text in texts]
    return [text for text in tidy if not text.startswith(NOTIFIES)]


def assert_sends(call: Callable[[], object], *beginnings: str) -> None:
    sent = statements_of(call)
    listed = "\n".join(text[:120] for text in sent)
    same = len(sent) == len(beginnings) and all(map(str.startswith, sent, beginnings))
    assert same, f"{len(sent)} statements:\n{listed}"


@pytest.fixture
def program(transactional_db, workspace, session) -> Iterator[APIClient]:
    """Return a client whose key is cached and whose statements are planned."""
    client = key_client(workspace)
    with cached_keys():
        for number in range(3):
            send(client, "known", key=f"first {number}")
        yield client


def send(client: APIClient, session_key: str, *, key: str = "") -> None:
    body = {"agent": "Tester", "session_key": session_key, "message": "Hello Ann"}
    headers = {"Idempotency-Key": key} if key else {}
    assert client.post(RUNTIME, body, format="json", headers=headers).status_code == 202


def test_a_message_to_a_known_session_is_one_statement(program):
    assert_sends(lambda: send(program, "known"), SEND)


def test_an_idempotency_key_adds_its_claim_and_its_response(program):
    assert_sends(lambda: send(program, "known", key="k"), CLAIM, SEND, KEEP)


def test_a_repeated_request_only_reads_the_first_response(program):
    send(program, "known", key="k")

    assert_sends(
        lambda: send(program, "known", key="k"), CLAIM, 'SELECT "tenants_idempotentanswer"'
    )


def test_a_message_to_a_new_session_creates_it_first(program):
    assert_sends(
        lambda: send(program, "new"),
        SEND,
        AGENT,
        SESSION,
        BEGIN,
        'INSERT INTO "agent_sessions"',
        'SELECT "agents_environment"',
        COMMIT,
        SESSION,
        "SELECT purse_short(",
        "SELECT seq, run, event_id, replayed FROM lane_accept(",
        'UPDATE "agent_sessions" SET "title"',
    )


def test_a_message_to_a_session_by_its_id_reads_the_session_once(program, session):
    def say() -> None:
        program.post(at(session, "messages/"), {"text": "Hello"}, format="json")

    say()
    assert_sends(
        say, SESSION, "SELECT purse_short(", "SELECT seq, run, event_id, replayed FROM", EVENT
    )


def test_a_run_and_a_session_are_one_statement_each(program, session):
    run = program.post(at(session, "messages/"), {"text": "Hi"}, format="json").json()["run_id"]

    assert_sends(lambda: program.get(f"/api/v1/runs/{run}/"), RUN)
    assert_sends(lambda: program.get(at(session)), SESSION)


def test_overrides_add_no_statement(program):
    overrides = {"model": "other", "tools": [], "system_prompt": "Be brief."}
    body = {"agent": "Tester", "session_key": "known", "message": "Hello", "overrides": overrides}

    assert_sends(lambda: program.post(RUNTIME, body, format="json"), SEND)


#: The calls of functions that the thread of a request makes for a message, with a new connection each time.
#: Measured on 2026-11-18: 2,094, and 2,836 before. Each costs about half a microsecond.
MOST_CALLS = 2_300


def test_a_message_makes_no_more_calls_of_functions_than_it_did(program, workspace, caplog):
    caplog.set_level(logging.WARNING, logger="django_structlog.middlewares.request")
    secret = issue_key(workspace_id=workspace.pk, name="Counted").secret
    handler = OneThreadHandler()
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def serve(number: int) -> None:
        body = {"agent": "Tester", "session_key": "known", "message": f"Hello {number}"}
        encoded = json.dumps(body).encode()
        headers = {"host": "testserver", "x-api-key": secret, "content-type": "application/json"}
        headers["content-length"] = str(len(encoded))
        scope = {
            "type": "http",
            "method": "POST",
            "path": RUNTIME,
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        request, _ = handler.create_request(scope, io.BytesIO(encoded))
        sys.setprofile(count)
        try:
            response = handler._respond(scope, request)
        finally:
            sys.setprofile(None)
        assert response.status_code == 202

    for number in range(3):
        calls = 0
        serve(number)

    assert calls <= MOST_CALLS
