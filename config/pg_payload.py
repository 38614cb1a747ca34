"""How a message becomes NOTIFY payloads, and back.

A payload is `<address> <json>`: the address is read without parsing, so that a process drops
cheaply what nobody there listens to. A message that is longer than a payload may be goes as parts,
`<address> #<id>/<number>/<count> <piece>`, in order, on the same channel.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping

import orjson

from config.faults import MessageTooLong

CHANNEL = "switchyard_live"
LARGEST = 7_900  #: Bytes of a payload; PostgreSQL's limit is 7,999.
MOST_PARTS = 1_000
MOST_UNFINISHED = 64  #: Messages of which a part is missing; the oldest gives way.
CONTINUATION = 0b1000_0000  # the two leading bits of a byte inside a UTF-8 character


def encode(address: str, message: Mapping[str, object]) -> list[str]:
    """Write a message as one payload, or as many as its length needs."""
    body = orjson.dumps(message)
    room = LARGEST - len(address) - 1
    if len(body) <= room:
        return [f"{address} {body.decode()}"]
    pieces = split(body, room - len("#01234567/1000/1000 "))
    if len(pieces) > MOST_PARTS:
        raise MessageTooLong
    name = secrets.token_hex(4)
    return [
        f"{address} #{name}/{number}/{len(pieces)} {piece.decode()}"
        for number, piece in enumerate(pieces)
    ]


def split(body: bytes, size: int) -> list[bytes]:
    """Cut into pieces of at most this size, never inside a character."""
    pieces = []
    start = 0
    while start < len(body):
        end = min(start + size, len(body))
        while end < len(body) and body[end] & 0b1100_0000 == CONTINUATION:
            end -= 1
        pieces.append(body[start:end])
        start = end
    return pieces


def address_of(payload: str) -> str:
    return payload.partition(" ")[0]


class Decoder:
    """Turns payloads into messages, keeping parts until their message is whole."""

    def __init__(self) -> None:
        self._unfinished: OrderedDict[str, dict[int, str]] = OrderedDict()

    def decode(self, payload: str) -> bytes | None:
        """The JSON of a message, or None while parts of it are missing."""
        body = payload.partition(" ")[2]
        if not body.startswith("#"):
            return body.encode()
        head, _, piece = body.partition(" ")
        name, number, count = head.split("/")
        pieces = self._unfinished.setdefault(name, {})
        pieces[int(number)] = piece
        if len(pieces) == int(count):
            del self._unfinished[name]
            return "".join(pieces[place] for place in sorted(pieces)).encode()
        if len(self._unfinished) > MOST_UNFINISHED:
            self._unfinished.popitem(last=False)
        return None
