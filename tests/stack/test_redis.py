"""Tests of live frames over Redis, and that an outage of Redis loses no events."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.stack.client import Client
from tests.stack.running import free_port, wait_for

pytestmark = pytest.mark.stack


class Redis:
    """Runs a Redis server that stores nothing on disk."""

    def __init__(self, program: str) -> None:
        self.port = free_port()
        self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis() -> Iterator[Redis]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("There is no redis-server on this machine: install the package redis-server.")
    made = Redis(program)
    yield made
    made.kill()


def frames_until(client: Client, session_id: str, last_word: str) -> list[dict[str, Any]]:
    """Return the frames up to the stored answer with this last word, reconnecting as needed."""
    seen: list[dict[str, Any]] = []
    while True:
        after = max((frame["seq"] or 0 for frame in seen), default=0)
        with suppress(ConnectionClosed), client.follow(session_id, after) as socket:
            while True:
                seen.append(json.loads(socket.recv(timeout=60)))
                if seen[-1]["seq"] and str(seen[-1].get("content")).endswith(last_word):
                    return seen


def test_answers_are_streamed_over_redis(make_stack, redis):
    stack = make_stack(REDIS_URL=redis.url)
    stack.start()
    client = Client(stack)
    session_id = client.call("sessions/", {"agent": "Concierge"})["id"]

    client.call(f"sessions/{session_id}/messages/", {"text": "count to 200"})
    seen = frames_until(client, session_id, "200")

    pieces = [frame for frame in seen if frame["type"] == "assistant" and not frame["seq"]]
    assert len(pieces) > 3


def test_events_during_an_outage_of_redis_are_seen_later(make_stack, redis):
    stack = make_stack(REDIS_URL=redis.url)
    stack.start()
    client = Client(stack)
    session_id = client.call("sessions/", {"agent": "Concierge"})["id"]

    with ThreadPoolExecutor(1) as viewer:
        seen = viewer.submit(frames_until, client, session_id, "goodbye")
        redis.kill()
        client.call(f"sessions/{session_id}/messages/", {"text": "say hello"})
        messages = f"sessions/{session_id}/messages/"
        wait_for(lambda: client.rows(messages)[-1]["role"] == "assistant", "the answer")
        redis.start()
        client.call(f"sessions/{session_id}/messages/", {"text": "say goodbye"})
        stored = [frame["seq"] for frame in seen.result() if frame["seq"]]

    assert stored == list(range(1, len(stored) + 1))
