"""Fixtures of running stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stack.running import Running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run one healthy stack for all tests of a module; every test leaves it healthy."""
    running = Running(tmp_path_factory.mktemp("stack") / "data")
    try:
        running.start()
        yield running
    finally:
        running.destroy()


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that makes unstarted stacks, in one data directory by default."""
    made: list[Running] = []

    def make(data_dir: Path | None = None, **env: str) -> Running:
        made.append(Running(data_dir or tmp_path / "data", **env))
        return made[-1]

    yield make
    for running in made:
        running.destroy()
