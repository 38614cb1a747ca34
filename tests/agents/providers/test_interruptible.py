"""Tests that the stream of a silent model can be abandoned at any time."""

from __future__ import annotations

import threading

import pytest

from agents.exceptions import ProviderRejected
from agents.providers import registry
from agents.providers.base import ModelRequest, TextDelta, Tick
from agents.providers.registry import InterruptibleProvider

REQUEST = ModelRequest(model="m", instructions="", messages=())


class SilentProvider:
    """Sends one word, then nothing until it is released."""

    def __init__(self) -> None:
        self.resume = threading.Event()
        self.closed = threading.Event()

    def stream(self, request):
        try:
            yield TextDelta(text="one")
            self.resume.wait(10)
            yield TextDelta(text="two")
            yield TextDelta(text="three")
        finally:
            self.closed.set()


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch):
    monkeypatch.setattr(registry, "TICK_SECONDS", 0.01)


def test_a_silent_stream_ticks_and_is_closed_after_it_was_abandoned():
    source = SilentProvider()
    stream = InterruptibleProvider(source).stream(REQUEST)
    assert next(stream) == TextDelta(text="one")
    assert next(stream) == Tick()

    stream.close()  # type: ignore[attr-defined]
    source.resume.set()

    assert source.closed.wait(10)


def test_all_deltas_arrive_in_order_and_the_stream_ends():
    source = SilentProvider()
    source.resume.set()

    deltas = [d for d in InterruptibleProvider(source).stream(REQUEST) if isinstance(d, TextDelta)]

    assert [d.text for d in deltas] == ["one", "two", "three"]
    assert source.closed.wait(10)


def test_an_error_is_raised_in_the_consumer():
    class Broken:
        def stream(self, request):
            yield TextDelta(text="one")
            raise ProviderRejected("no")

    with pytest.raises(ProviderRejected, match="no"):
        list(InterruptibleProvider(Broken()).stream(REQUEST))
