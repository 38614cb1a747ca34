"""Doubles for the edges: a model that says what a test wants, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agents.providers.base import Delta, ModelRequest

Step = Sequence[Delta | Exception | Callable[[], object]]


class ScriptedProvider:
    """Answers each request with the next scripted step, and remembers what was asked.

    A step may hold exceptions, which are raised, and callables, which are called: that is how a
    test makes something happen in the middle of an answer.
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
