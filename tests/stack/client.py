"""A client of a running stack over REST and its sockets."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.stack.running import Running


class Client:
    """Calls the stack with a key of its first workspace."""

    def __init__(self, stack: Running) -> None:
        self.stack = stack
        made = stack.manage("issue_key", "--workspace", "My workspace", "--scope", "admin")
        self.key = made.stdout.strip()

    def call(self, path: str, body: object = None, *, method: str | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310
            f"{self.stack.base_url}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"x-api-key": self.key, "content-type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)

    def rows(self, path: str) -> list[dict[str, Any]]:
        return list(self.call(path)["results"])

    def follow(self, session_id: str, after: int = 0) -> ClientConnection:
        """Open a socket that follows the session."""
        base = self.stack.base_url.replace("http", "ws", 1)
        return connect(
            f"{base}/ws/sessions/{session_id}/?after={after}",
            additional_headers={"x-api-key": self.key},
        )
