"""A part that lives but gives no sign of life is found, and no other."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from orchestrator.launcher.checks import (
    CHECKS,
    HANGS_AFTER,
    HangWatch,
    Health,
    answers_of,
    pulse_of,
)
from tenants.models import Pulse


def watch_with(*ages: float | None) -> HangWatch:
    """A watch that sees these ages, one at each look."""
    seen = iter(ages)
    return HangWatch({"workers": lambda: next(seen)})


def looks(watch: HangWatch, times: int) -> bool:
    for _ in range(times):
        watch.check()
    return watch.hangs("workers")


def test_a_part_that_stays_silent_hangs() -> None:
    assert looks(watch_with(*[HANGS_AFTER + 1] * CHECKS), CHECKS)


def test_one_silent_look_proves_nothing() -> None:
    watch = watch_with(*[HANGS_AFTER + 1] * (CHECKS - 1), 0.5, HANGS_AFTER + 1)

    assert not looks(watch, CHECKS + 1)


def test_an_absent_database_says_nothing_about_a_part() -> None:
    assert not looks(watch_with(*[None] * CHECKS), CHECKS)


def test_a_part_that_was_started_again_is_counted_anew() -> None:
    watch = watch_with(*[HANGS_AFTER + 1] * (CHECKS + 1))
    assert looks(watch, CHECKS)

    watch.reset("workers")

    assert not looks(watch, 1)


def test_a_web_server_that_stops_answering_grows_silent() -> None:
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
def test_workers_are_not_blamed_while_nobody_rings_them() -> None:
    sign = pulse_of("worker", pinged_by="supervisor")
    set_pulse("worker", age=300)

    set_pulse("supervisor", age=60)
    unheard = sign()
    set_pulse("supervisor", age=1)
    silent = sign()

    assert unheard is None
    assert silent is not None
    assert silent > HANGS_AFTER
