"""The processes that `viewers.py` measures: workers whose model streams, and a bare web server.

`python -m bench.streaming` runs a cluster whose model streams tokens, each of which is the time at
which it was made. Daphne serves `application`, which broadcasts such tokens to all its clients with
nothing in between: the least that Daphne can take for the same frames.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import orjson

SECONDS = float(os.environ.get("MODEL_SECONDS", "1"))
TOKENS_PER_SECOND = 100
#: How often a worker publishes new text, as `sessions_app/live/drafts.py` does.
BROADCAST_SECONDS = 0.03

clients: set[Any] = set()
broadcasting: asyncio.Task[None] | None = None


def token(moment: float) -> str:
    return f"@{moment:.6f} "


def stream_tokens() -> Iterator[str]:
    """Yield a token at each due time. A token that is late still says when it was due."""
    began = time.time()
    for nth in range(int(SECONDS * TOKENS_PER_SECOND)):
        due = began + nth / TOKENS_PER_SECOND
        time.sleep(max(0.0, due - time.time()))
        yield token(time.time())


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Accept a socket, and broadcast from the first `start` that any client sends."""
    global broadcasting
    await send({"type": "websocket.accept"})
    clients.add(send)
    while (message := await receive())["type"] != "websocket.disconnect":
        if message.get("text") == "start" and broadcasting is None:
            broadcasting = asyncio.create_task(broadcast())
    clients.discard(send)


async def broadcast() -> None:
    """Send the tokens that were made since the last frame to all clients, about 33 times a second."""
    global broadcasting
    body: dict[str, Any] = {"type": "assistant", "content": "", "metadata": {}, "seq": None}
    names = ("session_id", "run_id", "event_id")
    body["metadata"] = {name: str(uuid4()) for name in names} | {
        "event_type": "agent.message",
        "created_at": "2026-01-01T00:00:00.000000Z",
        "offset": 1000,
    }
    began = made = time.time()
    while made < began + SECONDS:
        await asyncio.sleep(BROADCAST_SECONDS)
        content = []
        while made < time.time():
            content.append(token(made))
            made += 1 / TOKENS_PER_SECOND
        text = orjson.dumps(body | {"content": "".join(content)}).decode()
        for send in list(clients):
            await send({"type": "websocket.send", "text": text})
    broadcasting = None


def run_cluster() -> None:
    import django

    django.setup()
    from django_q.cluster import Cluster

    from agents.providers.base import Delta, ModelRequest, TextDelta, Usage
    from orchestrator import worker
    from sessions_app.harness import loop

    class StreamingModel:
        def stream(self, request: ModelRequest) -> Iterator[Delta]:
            for text in stream_tokens():
                yield TextDelta(text=text)
            yield Usage(input_tokens=1, output_tokens=1)

    loop.provider_for = lambda *_: StreamingModel()  # type: ignore[attr-defined]
    worker.install()
    Cluster().start()


if __name__ == "__main__":
    run_cluster()
