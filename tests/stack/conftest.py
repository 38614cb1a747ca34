"""Fixtures that give a running stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stack.running import Running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One healthy stack for all tests of a module; a test leaves it healthy."""
    running = Running(tmp_path_factory.mktemp("stack") / "data")
    try:
        running.start()
        yield running
    finally:
        running.destroy()


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Make stacks that are not started yet; they share a data directory unless told otherwise."""
    made: list[Running] = []

    def make(data_dir: Path | None = None, **env: str) -> Running:
        made.append(Running(data_dir or tmp_path / "data", **env))
        return made[-1]

    yield make
    for running in made:
        running.destroy()
