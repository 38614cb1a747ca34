"""An application that floods its client, sends a long message, writes at once, or closes the socket."""

from __future__ import annotations

import os
from typing import Any

from core import server
from core.server import Backpressure, disable_form_parsing
from core.websocket import WRITE_FRAME, encode_frame

PIECE, PIECES = 64 * 1024, 1_000
server.STUCK_SECONDS = float(os.environ.get("STUCK_SECONDS", "60"))

sent = 0


async def flood(scope: dict[str, Any], receive: Any, send: Any) -> None:
    global sent
    if scope["path"] == "/report":
        body = str(sent).encode()
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})
    elif scope["path"] == "/close":
        await send({"type": "websocket.accept"})
        code = int(scope["query_string"])
        await send({"type": "websocket.close", "code": code, "reason": "Say it"})
    elif scope["path"] == "/long":
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "é" * int(scope["query_string"]) + "."})
        await send({"type": "websocket.send", "text": "what comes after"})
    elif scope["path"] == "/direct":
        await send({"type": "websocket.accept"})
        write = scope["extensions"][WRITE_FRAME]
        for number in range(PIECES):
            frame = encode_frame(f"{number}:".encode() + b"x" * PIECE)
            if write(frame):
                sent += 1
            else:
                text = frame[10:].decode()
                await send({"type": "websocket.send", "text": text})
    elif scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        for _ in range(PIECES):
            await send({"type": "websocket.send", "text": "x" * PIECE})
            sent += 1
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(PIECES):
            await send({"type": "http.response.body", "body": b"x" * PIECE, "more_body": True})
            sent += 1
        await send({"type": "http.response.body", "body": b""})


disable_form_parsing()
application = Backpressure(flood)
