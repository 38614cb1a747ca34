"""Tests that a living part without a sign of life is detected."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from orchestrator.launcher.checks import Health
from orchestrator.launcher.watch import CHECKS, HangWatch, answers_of, pulse_of
from tenants.models import Pulse


def watch_with(*ages: float | None) -> HangWatch:
    """Create a watch that reads these ages, one per check."""
    seen = iter(ages)
    return HangWatch({"workers": lambda: next(seen)})


def check_times(watch: HangWatch, times: int) -> bool:
    found = [watch.check() for _ in range(times)]
    return found[-1] == ["workers"]


def test_a_part_that_stays_silent_hangs() -> None:
    assert check_times(watch_with(*[settings.HANG_SECONDS + 1] * CHECKS), CHECKS)


def test_a_single_silent_check_proves_nothing() -> None:
    watch = watch_with(*[settings.HANG_SECONDS + 1] * (CHECKS - 1), 0.5, settings.HANG_SECONDS + 1)

    assert not check_times(watch, CHECKS + 1)


def test_an_unavailable_database_says_nothing_about_a_part() -> None:
    assert not check_times(watch_with(*[None] * CHECKS), CHECKS)


def test_the_count_starts_over_with_a_sign_of_life() -> None:
    watch = watch_with(*[settings.HANG_SECONDS + 1] * CHECKS, 0.5, settings.HANG_SECONDS + 1)
    assert check_times(watch, CHECKS)

    assert not check_times(watch, 2)


def test_a_web_server_that_stops_answering_becomes_silent() -> None:
    answers = iter([Health(answered=True), Health(), Health(answered=True, failed=["workers"])])
    sign = answers_of(lambda: next(answers))

    answered, silent, failed = sign(), sign(), sign()

    assert answered is not None
    assert silent is not None
    assert failed is not None
    assert silent > answered
    assert silent > failed


def set_pulse(kind: str, *, age: float) -> None:
    at = timezone.now() - timedelta(seconds=age)
    Pulse.objects.update_or_create(kind=kind, host="here", pid=1, defaults={"at": at})


@pytest.mark.django_db
def test_workers_are_not_blamed_while_the_supervisor_does_not_ping_them() -> None:
    sign = pulse_of("worker", pinged_by="supervisor")
    set_pulse("worker", age=300)

    set_pulse("supervisor", age=60)
    unheard = sign()
    set_pulse("supervisor", age=1)
    silent = sign()

    assert unheard is None
    assert silent is not None
    assert silent > settings.HANG_SECONDS
