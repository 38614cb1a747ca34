"""Webhooks arrive: signed, retried, once at a time, and no endpoint delays another."""

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
from tests.tenants.receiving import soon

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def start() -> Iterator[Callable[..., None]]:
    """Start senders; they end with the test."""
    stop = threading.Event()
    started: list[threading.Thread] = []

    def start(**options: Any) -> None:
        given = {"look_seconds": 0.2, "seconds": 5.0, "threads": 2, **options}
        started.append(Sender(stop, **given).start())

    yield start
    stop.set()
    for thread in started:
        thread.join(10)


def state(status: str) -> Callable[[], bool]:
    return lambda: (
        WebhookDelivery.objects.exists()
        and not WebhookDelivery.objects.exclude(status=status).exists()
    )


def test_an_event_arrives_signed_as_the_standard_says(workspace, subscribe, receiver, start):
    made = subscribe("/hook", "run.*")
    start()
    announce(workspace.pk, "run.completed", {"id": "r1", "text": "fünf"})
    announce(workspace.pk, "agent.message", {"id": "not wanted"})

    request = soon(receiver.first)
    body = request.get_data()
    told = Signer(made.secret).verify(body, dict(request.headers))
    assert told["type"] == "run.completed"
    assert told["data"] == {"id": "r1", "text": "fünf"}
    soon(state("delivered"))
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

    soon(state("delivered"))
    assert len(receiver.ids) == len(set(receiver.ids)) == 40


def test_a_dead_endpoint_delays_no_other(workspace, subscribe, receiver, start):
    receiver.hang("/dead")
    subscribe("/dead")
    subscribe("/well")
    start(threads=2, seconds=20.0)
    for number in range(10):
        announce(workspace.pk, "run.completed", {"n": number})

    soon(lambda: receiver.count("/well") == 10)
    assert receiver.count("/dead") == 1
    receiver.let_go()


def test_a_failed_attempt_is_made_again_with_the_same_id(
    workspace, subscribe, receiver, start, monkeypatch
):
    monkeypatch.setattr(deliveries, "RETRIES", (0.05,) * 10)
    monkeypatch.setattr(deliveries, "LONGEST_QUIET", 0.05)
    receiver.answers("/hook", 500, 302, 200)
    made = subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    soon(state("delivered"))
    assert len(receiver.ids) == 3
    assert len(set(receiver.ids)) == 1
    made.webhook.refresh_from_db()
    assert (made.webhook.failures, made.webhook.failing_since) == (0, None)


def test_attempts_end_after_the_last_one(workspace, subscribe, receiver, start, monkeypatch):
    monkeypatch.setattr(deliveries, "RETRIES", (0.05, 0.05))
    monkeypatch.setattr(deliveries, "LONGEST_QUIET", 0.05)
    receiver.answers("/hook", 500, 500, 500, 500)
    subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    soon(state("failed"))
    delivery = WebhookDelivery.objects.get()
    assert (delivery.attempts, delivery.response_status) == (3, 500)
    assert delivery.response_snippet == "answer 500"


def test_an_endpoint_that_asks_for_a_pause_gets_it(workspace, subscribe, receiver, start):
    receiver.answers("/hook", 429, headers={"Retry-After": "3000"})
    made = subscribe()
    start()
    announce(workspace.pk, "run.completed", {})
    soon(lambda: Webhook.objects.get().failures == 1)

    later = timezone.now() + timedelta(seconds=2_000)
    assert WebhookDelivery.objects.get().next_attempt_at > later
    made.webhook.refresh_from_db()
    assert made.webhook.quiet_until > later


def test_an_endpoint_that_is_gone_is_switched_off_and_its_admins_are_told(
    workspace, owner, subscribe, receiver, start, mailoutbox
):
    receiver.answers("/hook", 410)
    made = subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    soon(lambda: not Webhook.objects.get().active)
    soon(lambda: mailoutbox)
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
def test_only_repeated_failure_over_days_switches_off(
    workspace, subscribe, receiver, start, settings, days, failures, active
):
    receiver.answers("/hook", 500)
    made = subscribe()
    since = timezone.now() - timedelta(days=days)
    Webhook.objects.update(failing_since=since, failures=failures)
    start()
    announce(workspace.pk, "run.completed", {})
    soon(lambda: Webhook.objects.get().failures == failures + 1)

    made.webhook.refresh_from_db()
    assert made.webhook.active is active
    assert InboxItem.objects.exists() is not active


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "metadata.test"])
def test_no_private_address_is_contacted(workspace, receiver, start, monkeypatch, host):
    monkeypatch.setattr("core.http.resolve_host", lambda *_: ["127.0.0.1"])
    Webhook.objects.create(
        workspace=workspace,
        url=f"http://{host}:{receiver.port}/hook",
        events=["*"],
        secret="whsec_c2VjcmV0",
    )
    start()
    announce(workspace.pk, "run.completed", {})

    soon(lambda: Webhook.objects.get().failures == 1)
    assert "not on the public internet" in WebhookDelivery.objects.get().response_snippet
    assert receiver.ids == []


def test_a_redirect_is_not_followed(workspace, subscribe, receiver, start):
    receiver.answers("/hook", 307, headers={"Location": receiver.url("/other")})
    subscribe()
    start()
    announce(workspace.pk, "run.completed", {})

    soon(lambda: Webhook.objects.get().failures == 1)
    assert receiver.count("/other") == 0


def test_a_huge_answer_is_read_no_further_than_its_beginning(workspace, subscribe, receiver, start):
    def flood(_: Request) -> Response:
        return Response(b"\x00x" * 1_000_000, status=200)

    receiver.server.expect_request("/flood").respond_with_handler(flood)
    subscribe("/flood")
    start()
    announce(workspace.pk, "run.completed", {})

    soon(state("delivered"))
    assert 0 < len(WebhookDelivery.objects.get().response_snippet) <= 1000


def test_a_replay_has_the_same_id_and_two_clicks_send_it_once(
    workspace, subscribe, receiver, start
):
    subscribe()
    announce(workspace.pk, "run.completed", {"n": 1})
    start()
    soon(state("delivered"))
    delivery = WebhookDelivery.objects.get()
    receiver.hang("/hook")
    replay(delivery)
    soon(lambda: receiver.count("/hook") == 2)
    replay(delivery)
    receiver.let_go()

    soon(state("delivered"))
    assert receiver.ids == [str(delivery.pk)] * 2


def test_a_ping_arrives_although_the_endpoint_was_left_alone(workspace, subscribe, receiver, start):
    made = subscribe("/hook", "run.failed")
    Webhook.objects.update(failures=3, quiet_until=timezone.now() + timedelta(hours=1))
    start()
    ping(made.webhook)

    request = soon(receiver.first)
    assert (
        Signer(made.secret).verify(request.get_data(), dict(request.headers))["type"]
        == "webhook.ping"
    )


def test_after_a_rotation_both_secrets_verify_for_a_day(workspace, subscribe, receiver, start):
    made = subscribe()
    rotated = rotate_secret(made.webhook)
    start()
    announce(workspace.pk, "run.completed", {})

    request = soon(receiver.first)
    assert rotated.secret != made.secret
    for secret in (made.secret, rotated.secret):
        assert Signer(secret).verify(request.get_data(), dict(request.headers))


def test_the_secret_before_the_last_signs_no_more_when_its_time_is_up(
    workspace, receiver, subscribe, start
):
    made = subscribe()
    rotated = rotate_secret(made.webhook)
    Webhook.objects.update(old_secret_until=timezone.now())
    start()
    announce(workspace.pk, "run.completed", {})

    request = soon(receiver.first)
    assert Signer(rotated.secret).verify(request.get_data(), dict(request.headers))
    with pytest.raises(WebhookVerificationError):
        Signer(made.secret).verify(request.get_data(), dict(request.headers))
