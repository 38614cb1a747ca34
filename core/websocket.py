"""The bytes of a WebSocket message, for servers that can write the same bytes to many clients."""

from __future__ import annotations

#: The extension of an ASGI scope with a function that writes an encoded frame at once. The function
#: returns False, and writes nothing, while something before the frame waits to be written.
WRITE_FRAME = "switchyard.write_frame"
TEXT, BINARY = 0x81, 0x82  #: The first byte of a message that is one frame.


def encode_frame(payload: bytes, kind: int = TEXT) -> bytes:
    """Encode a whole message as one frame, not masked, as servers send it (RFC 6455)."""
    size = len(payload)
    if size <= 125:
        return bytes((kind, size)) + payload
    if size <= 0xFFFF:
        return bytes((kind, 126)) + size.to_bytes(2) + payload
    return bytes((kind, 127)) + size.to_bytes(8) + payload
