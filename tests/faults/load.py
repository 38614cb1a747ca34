"""Sends messages to a stack under attack, over REST and sockets, until each is accepted."""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

PATIENCE = 240.0


@dataclass(kw_only=True)
class Load:
    """Sends messages to several sessions, in order, at random moments."""

    base_url: str
    key: str
    sessions: int
    messages: int
    seconds: float
    texts: dict[str, list[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        with ThreadPoolExecutor(max_workers=min(self.sessions, 50)) as pool:
            for error in pool.map(self._session, range(self.sessions)):
                if error:
                    self.failures.append(error)

    def _session(self, number: int) -> str | None:
        rng = random.Random(number)
        try:
            made = self.post(
                "sessions/", {"agent": "Chaos", "session_key": f"chaos-{number}"}, f"s{number}"
            )
            for nth in range(self.messages):
                time.sleep(rng.uniform(0, self.seconds / self.messages))
                self._send(made["id"], number, nth, rng)
        except Exception as error:  # noqa: BLE001 (told by the test)
            return f"session {number}: {error!r}"
        return None

    def _send(self, session_id: str, number: int, nth: int, rng: random.Random) -> None:
        name = f"m{number}-{nth}"
        acts = rng.random() < 0.3
        text = f'use record with {{"text": "{name}"}}' if acts else f"say {name}"
        with self._lock:
            self.texts.setdefault(session_id, []).append(text)
        if rng.random() < 0.5:
            self.post(f"sessions/{session_id}/messages/", {"text": text}, name)
        else:
            self._over_socket(session_id, text, name)

    def post(self, path: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        """POST until it is accepted. The idempotency key makes a repetition harmless."""
        end = time.monotonic() + PATIENCE
        while True:
            request = urllib.request.Request(  # noqa: S310
                f"{self.base_url}/api/v1/{path}",
                json.dumps(body).encode(),
                {
                    "content-type": "application/json",
                    "x-api-key": self.key,
                    "idempotency-key": key,
                },
            )
            try:
                with urllib.request.urlopen(request, timeout=15) as answer:  # noqa: S310
                    return dict(json.load(answer))
            except (OSError, ValueError) as error:
                passes = not isinstance(error, urllib.error.HTTPError) or (
                    error.code >= 500 or error.code in {409, 429}
                )
                if not passes or time.monotonic() > end:
                    raise
                time.sleep(0.3)

    def _over_socket(self, session_id: str, text: str, name: str) -> None:
        """Send on a socket until it is acknowledged. The client's id makes a repetition harmless."""
        address = self.base_url.replace("http", "ws") + f"/ws/sessions/{session_id}/?after=0"
        message = json.dumps({"type": "user.message", "payload": {"text": text}, "id": name})
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with connect(
                    address, additional_headers={"x-api-key": self.key}, open_timeout=10
                ) as socket:
                    socket.send(message)
                    while True:
                        frame = json.loads(socket.recv(timeout=10))
                        if frame.get("type") == "ack" and frame.get("id") == name:
                            return
            except (OSError, TimeoutError, WebSocketException):
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)
