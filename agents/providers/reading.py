"""Reads a provider's stream apart from the one who waits for it.

A model may be silent for a long time, and a blocked read cannot be interrupted. So a thread of its
own reads, and the reader gets a `Tick` whenever nothing came for a moment: it can stop waiting then,
and the stream is closed as soon as its thread wakes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue

from agents.providers.base import Delta, ModelRequest, Provider, Tick

TICK_SECONDS = 0.5


class ReadApart:
    """A provider whose streams can be left at any moment."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        arrived: SimpleQueue[Delta | BaseException | None] = SimpleQueue()
        left = threading.Event()
        source = self._provider.stream(request)
        reader = threading.Thread(
            target=_read, args=(source, arrived, left), name="provider", daemon=True
        )
        reader.start()
        try:
            while True:
                try:
                    item = arrived.get(timeout=TICK_SECONDS)
                except Empty:
                    yield Tick()
                    continue
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            left.set()


def _read(
    source: Iterator[Delta],
    arrived: SimpleQueue[Delta | BaseException | None],
    left: threading.Event,
) -> None:
    """Pass everything on, an error too, until the stream ends or nobody waits any more."""
    try:
        for delta in source:
            if left.is_set():
                break
            arrived.put(delta)
        arrived.put(None)
    except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
        arrived.put(error)
    finally:
        close = getattr(source, "close", None)
        if close:
            close()
