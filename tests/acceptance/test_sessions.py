"""Tests a running Switchyard as a client uses it: over HTTP and from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.stack.running import Running, wait_for

pytestmark = pytest.mark.stack

#: Database connections per process of the stack: fewer than the clients that wait at once.
POOL = 4
WAITERS = 3 * POOL


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(
        tmp_path_factory.mktemp("sessions") / "data", DATABASE_POOL=str(POOL), WEB_PROCESSES="1"
    )
    try:
        running.start()
        yield running
    finally:
        running.destroy()


@pytest.fixture(scope="module")
def client(stack: Running) -> Iterator[httpx2.Client]:
    issued = stack.manage("issue_key", "--workspace", "Acceptance", "--create", "--scope", "admin")
    limits = httpx2.Limits(max_connections=2 * WAITERS)
    with httpx2.Client(
        base_url=f"{stack.base_url}/api/v1",
        headers={"x-api-key": issued.stdout.strip()},
        timeout=90,
        limits=limits,
    ) as client:
        yield client


@pytest.fixture
def agent(client: httpx2.Client) -> str:
    name = f"Demo {uuid4().hex[:8]}"
    body = {"name": name, "provider": "demo", "model": "demo"}
    assert client.post("/agents/", json=body).status_code == 201
    return name


@pytest.fixture
def session(client: httpx2.Client, agent: str) -> str:
    made = client.post("/sessions/", json={"agent": agent})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def send(client: httpx2.Client, session: str, text: str) -> str:
    sent = client.post(f"/sessions/{session}/messages/", json={"text": text})
    assert sent.status_code == 202, sent.text
    return str(sent.json()["run_id"])


def wait_for_end(client: httpx2.Client, run_id: str) -> dict[str, Any]:
    response = client.get(f"/runs/{run_id}/", params={"wait": 60})
    assert response.status_code == 200, response.text
    return dict(response.json())


def events(client: httpx2.Client, session: str) -> list[dict[str, Any]]:
    return list(client.get(f"/sessions/{session}/events/").json()["results"])


def test_a_message_is_answered_and_every_view_shows_the_same_events(client, session):
    run = wait_for_end(client, send(client, session, "Hello there"))
    log = events(client, session)

    assert (run["status"], run["stop_reason"]) == ("completed", "end_turn")
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    assert [event["type"] for event in log][0::2] == ["user.message", "agent.message"]
    answer = next(event for event in log if event["type"] == "agent.message")
    assert answer["payload"]["text"] == run["result"]["text"]
    messages = client.get(f"/sessions/{session}/messages/").json()["results"]
    assert [one["text"] for one in messages] == ["Hello there", run["result"]["text"]]
    exported = client.get(f"/sessions/{session}/export/")
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in exported.text.splitlines()] == log
    with client.stream("GET", f"/sessions/{session}/stream/") as stream:
        frames = read_frames(stream, last=len(log))
    assert [frame["metadata"]["event_id"] for frame in frames] == [event["id"] for event in log]


def read_frames(stream: httpx2.Response, last: int) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    for line in stream.iter_lines():
        if line.startswith("data: "):
            frames.append(json.loads(line.removeprefix("data: ")))
            if frames[-1]["seq"] == last:
                break
    return frames


def test_an_exported_session_can_be_imported_and_continued(client, session, agent):
    wait_for_end(client, send(client, session, "Hello there"))
    exported = client.get(f"/sessions/{session}/export/").content
    headers = {"content-type": "application/x-ndjson"}
    imported = client.post(
        "/sessions/import/", params={"agent": agent}, content=exported, headers=headers
    )

    assert imported.status_code == 201, imported.text
    fields = ("seq", "type", "payload", "created_at")
    assert [
        [event[name] for name in fields] for event in events(client, imported.json()["id"])
    ] == [[event[name] for name in fields] for event in events(client, session)]
    assert (
        wait_for_end(client, send(client, imported.json()["id"], "Hello again"))["status"]
        == "completed"
    )


def test_waiting_clients_do_not_block_other_requests(client, session):
    """More clients wait than the web server has database connections."""
    run_id = send(client, session, "wait for 60 seconds")
    wait_for(lambda: running(client, run_id), "the run to start")
    with ThreadPoolExecutor(max_workers=WAITERS) as clients:
        waiters = [clients.submit(wait_for_end, client, run_id) for _ in range(WAITERS)]
        for _ in range(2 * POOL):
            assert client.get(f"/sessions/{session}/").status_code == 200
        assert not any(waiter.done() for waiter in waiters)
        stopped = client.post(f"/sessions/{session}/interrupt/", json={"note": "enough"})
        runs = [waiter.result() for waiter in waiters]

    assert stopped.json()["run_id"] == run_id
    assert {one["status"] for one in runs} == {"cancelled"}


def running(client: httpx2.Client, run_id: str) -> bool:
    return bool(client.get(f"/runs/{run_id}/").json()["status"] == "running")


def test_streaming_clients_do_not_block_other_requests(client, session):
    streams = [client.stream("GET", f"/sessions/{session}/stream/") for _ in range(WAITERS)]
    opened = [stream.__enter__() for stream in streams]
    try:
        assert {stream.status_code for stream in opened} == {200}
        run = wait_for_end(client, send(client, session, "Hello there"))
        assert run["status"] == "completed"
        last = events(client, session)[-1]["seq"]
        seen = [read_frames(stream, last) for stream in opened]
    finally:
        for stream in streams:
            stream.__exit__(None, None, None)

    stored = [[frame["seq"] for frame in frames if frame["seq"]] for frames in seen]
    assert stored == [list(range(1, last + 1))] * WAITERS


def test_a_session_stays_usable_after_refused_requests(client, session):
    path = f"/sessions/{session}/events/"
    for body in (b"{", b'{"type": "no.such", "payload": {}}', b"[" * 100_000):
        refused = client.post(path, content=body, headers={"content-type": "application/json"})
        assert refused.status_code == 400
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["request_id"]

    assert wait_for_end(client, send(client, session, "Hello there"))["status"] == "completed"


def test_the_command_line_uses_the_same_sessions(stack, client, session, agent):
    here = ("--workspace", "Acceptance", "--json")

    def command(*words: str) -> dict[str, Any]:
        done = stack.manage("agent", *words, *here)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout.splitlines()[-1]))

    sent = command("session", "send", "--session", session, "--message", "Hello", "--wait")
    assert sent["status"] == "completed"
    assert sent["text"] == events(client, session)[-2]["payload"]["text"]
    shown = command("session", "status", "--session", session)
    assert (shown["status"], shown["last_seq"]) == ("idle", len(events(client, session)))
