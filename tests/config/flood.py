"""An application that sends much more than a client that does not read can take."""

from __future__ import annotations

import os
from typing import Any

from config import backpressure
from config.backpressure import Backpressure

PIECE, PIECES = 64 * 1024, 1_000
backpressure.STUCK_SECONDS = float(os.environ.get("STUCK_SECONDS", "60"))

sent = 0
ended = ""


async def flood(scope: dict[str, Any], receive: Any, send: Any) -> None:
    global sent, ended
    if scope["path"] == "/report":
        body = f"{sent} {ended}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
    elif scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        for _ in range(PIECES):
            await send({"type": "websocket.send", "text": "x" * PIECE})
            sent += 1
        while (message := await receive())["type"] != "websocket.disconnect":
            pass
        ended = message["type"]
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(PIECES):
            await send({"type": "http.response.body", "body": b"x" * PIECE, "more_body": True})
            sent += 1
        await send({"type": "http.response.body", "body": b""})
        ended = "whole"


application = Backpressure(flood)
