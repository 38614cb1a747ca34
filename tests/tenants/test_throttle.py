"""Tests of throttling: each caller has its own bucket, and responses state what is left."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from core.exceptions import TooManyRequests
from core.throttling import (
    MAX_CALLERS,
    MIN_BURST,
    Buckets,
    buckets,
    spend_anonymous,
    spend_guess,
)
from tenants.accounts import (
    ATTEMPT_WINDOW,
    FAILURES_PER_ADDRESS,
    FAILURES_PER_CLIENT,
    check_sign_in,
    clear_failures,
    record_failure,
)
from tenants.exceptions import TooManyAttempts
from tenants.models import SignInAttempt
from tests.conftest import key_client

ME = "/api/v1/me/"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def fresh_buckets():
    buckets.empty()
    yield
    buckets.empty()


def test_a_bucket_empties_and_fills_again():
    clock = Clock()
    own = Buckets(clock)
    spent = [own.spend("a", per_minute=60) for _ in range(MIN_BURST + 1)]

    assert not any(allowance.wait for allowance in spent[:-1])
    assert spent[-1].wait == pytest.approx(1)
    clock.now += 1
    assert own.spend("a", per_minute=60).wait == 0
    assert own.spend("a", per_minute=60).wait > 0


def test_the_default_allows_a_steady_fifty_requests_a_second(settings):
    clock = Clock()
    own = Buckets(clock)
    waits = []
    for _ in range(2000):
        waits.append(own.spend("a", per_minute=settings.REQUESTS_PER_MINUTE).wait)
        clock.now += 1 / 50

    assert not any(waits)


def guess_often(address: str) -> None:
    for _ in range(2000):
        spend_guess(address)


def test_fifty_wrong_keys_a_second_are_not_throttled_but_a_burst_is(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(buckets, "_clock", clock)
    for _ in range(2000):
        spend_guess("10.0.0.1")
        clock.now += 1 / 50

    with pytest.raises(TooManyRequests):
        guess_often("10.0.0.1")
    assert not spend_anonymous("10.0.0.1").wait


def test_the_least_recent_caller_is_forgotten_first(monkeypatch):
    monkeypatch.setattr("core.throttling.MAX_CALLERS", 2)
    own = Buckets(Clock())
    for _ in range(MIN_BURST):
        own.spend("old", per_minute=60)
    own.spend("b", per_minute=60)
    own.spend("c", per_minute=60)

    assert own.spend("old", per_minute=60).remaining == MIN_BURST - 1
    assert MAX_CALLERS > 2


def test_responses_carry_rate_limit_headers(api):
    first, second = api.get(ME), api.get(ME)

    assert int(first["X-RateLimit-Limit"]) >= MIN_BURST
    assert int(second["X-RateLimit-Remaining"]) < int(first["X-RateLimit-Limit"])
    assert int(second["X-RateLimit-Reset"]) >= 0


def test_a_throttled_response_says_when_to_retry(api, workspace, settings):
    settings.REQUESTS_PER_MINUTE = 1
    answers = [api.get(ME) for _ in range(MIN_BURST + 1)]

    assert {answer.status_code for answer in answers[:-1]} == {200}
    refused = answers[-1]
    assert (refused.status_code, refused.json()["code"]) == (429, "throttled")
    assert int(refused["Retry-After"]) >= 1
    assert refused["X-RateLimit-Remaining"] == "0"
    # Another key of the same workspace has a bucket of its own.
    assert key_client(workspace).get(ME).status_code == 200


def fail(times: int, *, email: str = "a@example.com", client: str = "10.0.0.1") -> None:
    for _ in range(times):
        record_failure(email, client)


@pytest.mark.django_db
def test_an_email_address_is_locked_for_a_client_after_too_many_failures():
    fail(FAILURES_PER_ADDRESS - 1)
    check_sign_in("a@example.com", "10.0.0.1")
    fail(1)

    with pytest.raises(TooManyAttempts):
        check_sign_in(" A@Example.com", "10.0.0.1")
    check_sign_in("b@example.com", "10.0.0.1")
    check_sign_in("a@example.com", "10.0.0.2")


@pytest.mark.django_db
def test_a_client_is_locked_after_failures_with_many_email_addresses():
    for number in range(FAILURES_PER_CLIENT):
        fail(1, email=f"{number}@example.com")

    with pytest.raises(TooManyAttempts):
        check_sign_in("new@example.com", "10.0.0.1")
    check_sign_in("new@example.com", "10.0.0.2")


@pytest.mark.django_db
def test_clearing_the_failures_unlocks_the_email_address():
    fail(FAILURES_PER_ADDRESS)
    clear_failures("a@example.com", "10.0.0.1")

    check_sign_in("a@example.com", "10.0.0.1")


@pytest.mark.django_db
def test_old_failures_do_not_count_and_are_removed():
    fail(FAILURES_PER_ADDRESS)
    SignInAttempt.objects.update(at=timezone.now() - ATTEMPT_WINDOW - timedelta(seconds=1))
    check_sign_in("a@example.com", "10.0.0.1")
    fail(1, email="b@example.com")

    assert SignInAttempt.objects.count() == 1


@pytest.mark.django_db
def test_addresses_are_stored_only_as_digests():
    fail(1)
    row = SignInAttempt.objects.get()

    assert "example" not in row.email_digest
    assert "10.0" not in row.client
