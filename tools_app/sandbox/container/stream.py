"""A connection to the engine that has become a plain stream: a command's output, or a terminal."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

from config.faults import SandboxReplaced, SandboxUnavailable

PATIENCE_SECONDS = 30.0
CHUNK = 65_536
#: Before each piece: which output it is, three bytes of nothing, and how long it is.
FRAME_HEAD = 8


class Stream:
    """Bytes both ways. `framed` is how engines send the output of what has no terminal."""

    def __init__(self, engine_socket: str, path: str, body: object, *, framed: bool) -> None:
        self._framed = framed
        self._raw = bytearray()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(PATIENCE_SECONDS)
            self._socket.connect(engine_socket)
            self._socket.sendall(_request(path, body))
            self._read_head()
        except OSError as error:
            self._socket.close()
            raise SandboxUnavailable(f"The container engine does not answer: {error}.") from error
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def early(self) -> bytes:
        """What came together with the engine's answer, so that no `select` will tell of it."""
        return self._payload() if self._framed else self._take(len(self._raw))

    def receive(self) -> bytes:
        """Wait for bytes; none of them means the end."""
        while True:
            try:
                piece = self._socket.recv(CHUNK)
            except OSError:
                return b""
            if not piece:
                return b""
            self._raw += piece
            # Only a part of a frame may have come; the rest is on its way.
            if data := self.early():
                return data

    def skip_line(self) -> None:
        """Pass over what comes up to the end of the first line."""
        seen = b""
        while b"\n" not in seen:
            piece = self.receive()
            if not piece:
                return
            seen += piece
        self._raw[:0] = seen.partition(b"\n")[2]

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hang_up(self) -> None:
        """Wakes whoever waits in `receive`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self._raw:
            piece = self._socket.recv(CHUNK)
            if not piece:
                raise OSError("the connection was closed")
            self._raw += piece
        head, _, rest = bytes(self._raw).partition(b"\r\n\r\n")
        self._raw = bytearray(rest)
        status = head.split(b" ", 2)[1:2]
        if status == [b"404"]:
            raise SandboxReplaced
        if status != [b"101"]:
            raise SandboxUnavailable(
                f"The container engine opens no stream: {rest[:300].decode(errors='replace')}"
            )

    def _payload(self) -> bytes:
        pieces = []
        while len(self._raw) >= FRAME_HEAD:
            length = int.from_bytes(self._raw[4:FRAME_HEAD], "big")
            if len(self._raw) < FRAME_HEAD + length:
                break
            pieces.append(self._take(FRAME_HEAD + length)[FRAME_HEAD:])
        return b"".join(pieces)

    def _take(self, length: int) -> bytes:
        data = bytes(self._raw[:length])
        del self._raw[:length]
        return data


def _request(path: str, content: object) -> bytes:
    # What follows the head of a request without content would be typed into the terminal.
    body = b"" if content is None else json.dumps(content).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
