"""Tests of who may read the Prometheus metrics."""

from __future__ import annotations

import pytest

from tenants.models import User

pytestmark = pytest.mark.django_db
OUTSIDE = {"REMOTE_ADDR": "203.0.113.7"}


def test_metrics_can_be_read_on_this_machine(client):
    answer = client.get("/metrics")

    assert answer.status_code == 200
    assert b"django_http_requests" in answer.content


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_a_request_forwarded_by_a_local_proxy_is_refused(client, header):
    assert client.get("/metrics", headers={header: "203.0.113.7"}).status_code == 403


def test_a_request_from_outside_is_refused(client, browser_client):
    assert client.get("/metrics", **OUTSIDE).status_code == 403
    assert browser_client.get("/metrics", **OUTSIDE).status_code == 403


def test_staff_can_read_metrics(client):
    client.force_login(User.objects.create_user("staff@example.com", is_staff=True))

    assert client.get("/metrics", **OUTSIDE).status_code == 200


def test_the_token_gives_access(client, settings):
    settings.METRICS_TOKEN = "figures"

    def ask(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return client.get("/metrics", headers=headers, **OUTSIDE).status_code

    assert (ask("figures"), ask("wrong"), ask("")) == (200, 403, 403)


def test_an_empty_token_gives_no_access(client, settings):
    settings.METRICS_TOKEN = ""

    assert (
        client.get("/metrics", headers={"Authorization": "Bearer "}, **OUTSIDE).status_code == 403
    )
