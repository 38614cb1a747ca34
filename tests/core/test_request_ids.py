"""Tests that every response carries a request id."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/api/v1/me/", "/api/nothing/", "/nothing-at-all/", "/admin/"])
def test_every_response_has_its_own_request_id(client, path):
    first, second = client.get(path), client.get(path)

    assert first["X-Request-ID"]
    assert first["X-Request-ID"] != second["X-Request-ID"]


def test_the_clients_own_id_is_kept(client):
    answer = client.get("/api/v1/me/", headers={"X-Request-ID": "trace-42/a.b"})

    assert answer["X-Request-ID"] == "trace-42/a.b"
    assert answer.json()["request_id"] == "trace-42/a.b"


@pytest.mark.parametrize(
    "odd", ["", "short", "x" * 129, "with space in it", '{"a":1}', "<script>x"]
)
def test_an_invalid_id_is_replaced(client, odd):
    answer = client.get("/api/v1/me/", headers={"X-Request-ID": odd})

    assert answer["X-Request-ID"] != odd
    assert answer.json()["request_id"] == answer["X-Request-ID"]
