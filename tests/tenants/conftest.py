"""A receiver of webhooks that may be reached although it is on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.tenants.receiving import Receiver


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """Each request on a thread of its own: one that hangs must not hold the others."""
    server = HTTPServer(threaded=True)
    server.start()
    settings.EGRESS_ALLOWED_PRIVATE = [f"localhost:{server.port}"]
    made = Receiver(server)
    yield made
    made.let_go()
    server.clear()
    server.stop()
