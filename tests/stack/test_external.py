"""Tests of a stack on an external server named by DATABASE_URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.postgres import Embedded
from tests.stack.running import Running

pytestmark = pytest.mark.stack


def test_up_uses_an_external_server_and_never_starts_or_stops_it(
    make_stack: Callable[..., Running], tmp_path: Path
) -> None:
    foreign = Embedded(tmp_path / "foreign", durable=False)
    foreign.start()
    try:
        server = foreign.pid()
        stack = make_stack(
            DATABASE_URL=f"postgresql://postgres@/switchyard?host={foreign.place.socket_dir}"
        )
        stack.start()
        assert "postgres" not in stack.pids()
        assert not (stack.data_dir / "postgres").exists()

        stack.kill("up")

        stack.wait_until_gone()
        assert foreign.pid() == server
    finally:
        foreign.stop("immediate")
