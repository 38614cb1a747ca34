"""Tests of the webhook sender: signatures, retries, leases and independent endpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from standardwebhooks import Webhook as Signer
from standardwebhooks import WebhookVerificationError
from werkzeug import Request, Response

from tenants.models import InboxItem, Webhook, WebhookDelivery
from tenants.notifications import deliveries
from tenants.notifications.deliveries import Sender
from tenants.notifications.webhooks import announce, ping, replay, rotate_secret
from tests.tenants.receiving import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def start() -> Iterator[Callable[..., None]]:
    """Return a function that starts a sender; all senders stop with the test."""
    stop = threading.Event()
    started: list[threading.Thread] = []

    def start(**options: Any) -> None:
        given = {"look_seconds": 0.2, "seconds": 5.0, "threads": 2, **options}
        started.append(Sender(stop, **given).start())

    yield start
    stop.set()
    for thread in started:
        thread.join(10)


def all_deliveries(status: str) -> Callable[[], bool]:
    return lambda: (
        WebhookDelivery.objects.exists()
        and not WebhookDelivery.objects.exclude(status=status).exists()
    )


def test_an_event_is_signed_as_standard_webhooks_requires(workspace, subscribe, receiver, start):
    made = subscribe("/hook", "run.*")
    start()
    announce(workspace.pk, "run.completed", {"id": "r1", "text": "fünf"})
    announce(workspace.pk, "agent.message", {"id": "not wanted"})

    request = wait_until(receiver.first)
    body = request.get_data()
    payload = Signer(made.secret).verify(body, dict(request.headers))
    assert payload["type"] == "run.completed"
    assert payload["data"] == {"id": "r1", "text": "fünf"}
    wait_until(all_deliveries("delivered"))
    delivery = WebhookDelivery.objects.get()
    assert request.headers["webhook-id"] == str(delivery.pk)
    assert (delivery.attempts, delivery.response_status) == (1, 200)
    assert delivery.finished_at is not None


def test_two_senders_send_each_delivery_once(workspace, subscribe, receiver, start):
    subscribe()
    start()
    start()
    for number in range(40):
        announce(workspace.pk, "run.completed", {"n": number})

    wait_until(all_deliveries("delivered"))
    assert len(receiver.ids) == len(set(receiver.ids)) == 40


def test_an_endpoint_that_hangs_does_not_delay_others(workspace, subscribe, receiver, start):
    receiver.hang("/dead")
    subscribe("/dead")
    subscribe("/well")
    start(threads=2, seconds=20.0)
    for number in range(10):
        announce(workspace.pk, "run.completed", {"n": number})

    wait_until(lambda: receiver.count("/well") == 10)
    assert receiver.count("/dead") == 1
    receiver.release()


def test_a_failed_attempt_is_retried_with_the_same_id(
    workspace, subscribe, receiver, start, monkeypatch
):
    monkeypatch.setattr(deliveries, "RETRIES", (0.05,) * 10)
    monkeypatch.setattr(deliveries, "LONGEST_QUIET", 0.05)
    receiver.respond_with("/hook", 500, 302, 200)
    made = subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    wait_until(all_deliveries("delivered"))
    assert len(receiver.ids) == 3
    assert len(set(receiver.ids)) == 1
    made.webhook.refresh_from_db()
    assert (made.webhook.failures, made.webhook.failing_since) == (0, None)


def test_a_delivery_fails_after_its_last_attempt(
    workspace, subscribe, receiver, start, monkeypatch
):
    monkeypatch.setattr(deliveries, "RETRIES", (0.05, 0.05))
    monkeypatch.setattr(deliveries, "LONGEST_QUIET", 0.05)
    receiver.respond_with("/hook", 500, 500, 500, 500)
    subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    wait_until(all_deliveries("failed"))
    delivery = WebhookDelivery.objects.get()
    assert (delivery.attempts, delivery.response_status) == (3, 500)
    assert delivery.response_snippet == "answer 500"


def test_the_sender_respects_retry_after(workspace, subscribe, receiver, start):
    receiver.respond_with("/hook", 429, headers={"Retry-After": "3000"})
    made = subscribe()
    start()
    announce(workspace.pk, "run.completed", {})
    wait_until(lambda: Webhook.objects.get().failures == 1)

    later = timezone.now() + timedelta(seconds=2_000)
    assert WebhookDelivery.objects.get().next_attempt_at > later
    made.webhook.refresh_from_db()
    assert made.webhook.quiet_until > later


def test_an_endpoint_that_answers_410_is_disabled_and_admins_are_notified(
    workspace, owner, subscribe, receiver, start, mailoutbox
):
    receiver.respond_with("/hook", 410)
    made = subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    wait_until(lambda: not Webhook.objects.get().active)
    wait_until(lambda: mailoutbox)
    assert "410" in Webhook.objects.get().disabled_reason
    assert WebhookDelivery.objects.get().status == "failed"
    notice = InboxItem.objects.get()
    assert (notice.user, notice.kind) == (owner, "warning")
    assert made.webhook.url in notice.body
    assert mailoutbox[0].to == [owner.email]
    assert announce(workspace.pk, "run.completed", {}) == 0


@pytest.mark.parametrize(
    ("days", "failures", "active"), [(4, 30, False), (4, 2, True), (1, 30, True)]
)
def test_an_endpoint_is_disabled_only_after_failing_repeatedly_for_days(
    workspace, subscribe, receiver, start, settings, days, failures, active
):
    receiver.respond_with("/hook", 500)
    made = subscribe()
    since = timezone.now() - timedelta(days=days)
    Webhook.objects.update(failing_since=since, failures=failures)
    start()
    announce(workspace.pk, "run.completed", {})
    wait_until(lambda: Webhook.objects.get().failures == failures + 1)

    made.webhook.refresh_from_db()
    assert made.webhook.active is active
    assert InboxItem.objects.exists() is not active


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "metadata.test"])
def test_private_addresses_are_not_contacted(workspace, receiver, start, monkeypatch, host):
    monkeypatch.setattr("core.http.resolve_host", lambda *_: ["127.0.0.1"])
    Webhook.objects.create(
        workspace=workspace,
        url=f"http://{host}:{receiver.port}/hook",
        events=["*"],
        secret="whsec_c2VjcmV0",
    )
    start()
    announce(workspace.pk, "run.completed", {})

    wait_until(lambda: Webhook.objects.get().failures == 1)
    assert "not on the public internet" in WebhookDelivery.objects.get().response_snippet
    assert receiver.ids == []


def test_a_redirect_is_not_followed(workspace, subscribe, receiver, start):
    receiver.respond_with("/hook", 307, headers={"Location": receiver.url("/other")})
    subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    wait_until(lambda: Webhook.objects.get().failures == 1)
    assert receiver.count("/other") == 0


def test_only_the_beginning_of_a_huge_response_is_read(workspace, subscribe, receiver, start):
    def flood(_: Request) -> Response:
        return Response(b"\x00x" * 1_000_000, status=200)

    receiver.server.expect_request("/flood").respond_with_handler(flood)
    subscribe("/flood")
    start()
    announce(workspace.pk, "run.completed", {})

    wait_until(all_deliveries("delivered"))
    assert 0 < len(WebhookDelivery.objects.get().response_snippet) <= 1000


def test_a_replay_keeps_its_id_and_is_sent_once_for_two_clicks(
    workspace, subscribe, receiver, start
):
    subscribe()
    announce(workspace.pk, "run.completed", {"n": 1})
    start()
    wait_until(all_deliveries("delivered"))
    delivery = WebhookDelivery.objects.get()
    receiver.hang("/hook")
    replay(delivery)
    wait_until(lambda: receiver.count("/hook") == 2)
    replay(delivery)
    receiver.release()

    wait_until(all_deliveries("delivered"))
    assert receiver.ids == [str(delivery.pk)] * 2


def test_a_ping_is_sent_while_the_endpoint_is_in_back_off(workspace, subscribe, receiver, start):
    made = subscribe("/hook", "run.failed")
    Webhook.objects.update(failures=3, quiet_until=timezone.now() + timedelta(hours=1))
    start()
    ping(made.webhook)

    request = wait_until(receiver.first)
    assert (
        Signer(made.secret).verify(request.get_data(), dict(request.headers))["type"]
        == "webhook.ping"
    )


def test_after_a_rotation_both_secrets_verify_for_a_day(workspace, subscribe, receiver, start):
    made = subscribe()
    rotated = rotate_secret(made.webhook)
    start()
    announce(workspace.pk, "run.completed", {})

    request = wait_until(receiver.first)
    assert rotated.secret != made.secret
    for secret in (made.secret, rotated.secret):
        assert Signer(secret).verify(request.get_data(), dict(request.headers))


def test_the_old_secret_stops_signing_when_it_expires(workspace, receiver, subscribe, start):
    made = subscribe()
    rotated = rotate_secret(made.webhook)
    Webhook.objects.update(old_secret_until=timezone.now())
    start()
    announce(workspace.pk, "run.completed", {})

    request = wait_until(receiver.first)
    assert Signer(rotated.secret).verify(request.get_data(), dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Signer(made.secret).verify(request.get_data(), dict(request.headers))
