"""Tests of the real web server with a small pool: clients that leave, wait or flood take nothing from others."""

from __future__ import annotations

import io
import socket
import time
import zipfile
from collections import Counter

import pytest
from django.conf import settings

from agents.models import Agent
from memory.models import MemoryEntry
from sessions_app.models import Run, Session
from tenants.keys import issue_key
from tests.conftest import SOAK_SECONDS
from tests.core.raw_http import (
    POOL,
    ask,
    begin,
    finish,
    locked,
    small_server,
    waiting_for,
)
from tests.core.test_backpressure import UPGRADE, Server
from tests.factories import make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.soak(rounds=20)]

ENTRIES = MemoryEntry._meta.db_table
CHUNKS = "memory_memorychunk"
FLOOD = (20 if SOAK_SECONDS else 5) * POOL


def key_of(workspace) -> str:
    return issue_key(workspace_id=workspace.pk, name="test", scope="admin").secret


@pytest.fixture
def key(workspace):
    make(MemoryEntry, workspace)
    return key_of(workspace)


@pytest.fixture
def foreign_key(foreign_workspace):
    return key_of(foreign_workspace)


def wait_for_lock(table: str, count: int) -> None:
    while waiting_for(table) < count:
        time.sleep(0.05)


def assert_served(server: Server, key: str, times: int = 10) -> None:
    """Assert that one request after the other is answered, each of which reads the database."""
    for _ in range(times):
        answer = ask(server, "/api/v1/agents/", key=key)
        assert answer.status == 200, answer.body


def leave(clients: list[socket.socket]) -> None:
    for client in clients:
        client.close()
    time.sleep(2)  # until Daphne has cancelled their requests


def test_clients_that_hang_up_give_everything_back(key, foreign_key, workspace):
    agent = Agent.objects.filter(workspace=workspace).first()
    with small_server() as server:
        with locked(ENTRIES):
            clients = [begin(server, "/api/v1/memory/search/?q=tea", key=key) for _ in range(FLOOD)]
            clients += [begin(server, "/api/v1/memory/", key=key) for _ in range(FLOOD)]
            clients += [
                begin(
                    server,
                    f"/api/v1/memory/import/?agent={agent.pk}",
                    key=key,
                    method="POST",
                    body=archive(),
                    **ZIP,
                )
                for _ in range(FLOOD)
            ]
            wait_for_lock(ENTRIES, 1)
            leave(clients)
        assert_served(server, key)
        assert_served(server, foreign_key)
        assert ask(server, "/api/v1/memory/search/?q=tea", key=key).status == 200


@pytest.mark.parametrize("door", ["api", "pages"])
def test_a_workspace_that_floods_leaves_room_for_another(key, foreign_key, browser_client, door):
    cookie = browser_client.cookies[settings.SESSION_COOKIE_NAME]
    path, options = {
        "api": ("/api/v1/memory/", {"key": key}),
        "pages": ("/memory/", {"Cookie": f"{cookie.key}={cookie.value}"}),
    }[door]
    with small_server() as server:
        with locked(ENTRIES):
            flood = [begin(server, path, **options) for _ in range(FLOOD)]
            wait_for_lock(ENTRIES, POOL - 1)
            assert_served(server, foreign_key)
            assert waiting_for(ENTRIES) == POOL - 1
        assert Counter(finish(client).status for client in flood) == {200: FLOOD}


def test_searches_leave_connections_for_other_requests_of_the_same_workspace(key):
    with small_server() as server:
        with locked(CHUNKS):
            path = "/api/v1/memory/search/?q=tea"
            flood = [begin(server, path, key=key) for _ in range(FLOOD)]
            wait_for_lock(CHUNKS, POOL // 2)
            assert_served(server, key)
            assert waiting_for(CHUNKS) == POOL // 2
        assert Counter(finish(client).status for client in flood) == {200: FLOOD}


ZIP = {"Content_Type": "application/zip"}


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("note.md", "Tea is served at five.")
    return out.getvalue()


def test_slow_imports_are_bounded_and_the_others_are_told_when_to_come_back(
    key, foreign_key, workspace
):
    agent = Agent.objects.filter(workspace=workspace).first()
    path = f"/api/v1/memory/import/?agent={agent.pk}&overwrite=true"
    with small_server(TRANSFER_WAIT="0.5") as server:
        with locked(ENTRIES):
            options = {"key": key, "method": "POST", "body": archive(), **ZIP}
            imports = [begin(server, path, **options) for _ in range(8)]
            wait_for_lock(ENTRIES, 2)
            assert_served(server, foreign_key)
            assert_served(server, key)
            refused = ask(server, path, **options)
            assert (refused.status, refused.json()["code"]) == (429, "throttled")
            assert int(refused.headers["retry-after"]) >= 1
            assert waiting_for(ENTRIES) == 2
        statuses = Counter(finish(client).status for client in imports)
        assert statuses[429] == 6
        assert ask(server, path, **options).status == 200


def test_clients_that_wait_for_news_hold_no_connection(key, foreign_key, workspace):
    session = make(Session, workspace)
    run = make(Run, workspace)
    Run.objects.filter(pk=run.pk).update(status="queued")
    with small_server() as server:
        paths = [f"/api/v1/sessions/{session.pk}/stream/", f"/api/v1/runs/{run.pk}/?wait=60"]
        clients = [begin(server, path, key=key) for path in paths for _ in range(2 * POOL)]
        headers = f"{UPGRADE}x-api-key: {key}\r\n"
        clients += [server.request(f"/ws/sessions/{session.pk}/", headers) for _ in range(2 * POOL)]
        for client in clients[: 2 * POOL] + clients[-2 * POOL :]:
            assert client.recv(1000)  # it is being served
        assert_served(server, key)
        assert_served(server, foreign_key)
        leave(clients)
        assert_served(server, key)
