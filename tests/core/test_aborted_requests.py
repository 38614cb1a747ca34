"""Tests of the real web server with clients that hang up before they are answered."""

from __future__ import annotations

import time

import pytest
from django.db import connection

from tests.core.test_backpressure import read_all, running

#: Together less than the quick request waits for a connection: two run at a time.
ABORTED, SLOW_SECONDS = 6, 3


@pytest.mark.soak(rounds=50)
def test_aborted_requests_return_their_connections_to_the_pool(transactional_db):
    database = str(connection.settings_dict["NAME"])
    with running(
        "tests.core.slow_views",
        # Daphne cancels the request of a client that left, before the view has ended.
        options=["--application-close-timeout", "1"],
        TEST_DATABASE=database,
        SLOW_SECONDS=str(SLOW_SECONDS),
    ) as server:
        clients = [server.request("/slow") for _ in range(ABORTED)]
        time.sleep(0.5)
        for client in clients:
            client.close()
        with server.request("/quick", "Connection: close\r\n") as client:
            assert read_all(client).startswith(b"HTTP/1.1 200")
