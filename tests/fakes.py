"""Test doubles for the edges of the product: a model with scripted answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agents.providers.base import Delta, ModelRequest

Step = Sequence[Delta | Exception | Callable[[], object]]


class ScriptedProvider:
    """Answers each request with the next scripted step and records the requests.

    A step may contain exceptions, which are raised, and callables, which are called, so that a test
    can act in the middle of an answer.
    """

    def __init__(self, *steps: Step) -> None:
        self._steps = iter(steps)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        self.requests.append(request)
        for item in next(self._steps):
            if isinstance(item, Exception):
                raise item
            if callable(item):
                item()
            else:
                yield item
