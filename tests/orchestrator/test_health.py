"""Tests that the health endpoint exercises what it reports on."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import OperationalError
from django.test import AsyncClient

from orchestrator.api import health
from tenants.models import Pulse
from tenants.pulse import beat

PATH = "/api/v1/health/"


@pytest_asyncio.fixture
async def stack(async_db):
    """Record a fresh pulse of a worker and a supervisor."""
    for kind in ("worker", "supervisor"):
        await sync_to_async(beat)(kind)
    health.checker.forget()
    yield
    await get_channel_layer().close()
    health.checker.forget()


async def ask(**headers: str) -> tuple[int, dict]:
    answer = await AsyncClient().get(PATH, headers=headers)
    return answer.status_code, answer.json()


async def test_a_working_stack_is_ok_without_an_identity(stack):
    assert await ask() == (
        200,
        {
            "status": "ok",
            "checks": {
                "database": "ok",
                "workers": "ok",
                "supervisor": "ok",
                "terminals": "ok",
                "stream": "ok",
            },
        },
    )


async def test_a_bad_key_does_not_matter(stack):
    status, _ = await ask(**{"x-api-key": "nonsense"})

    assert status == 200


@pytest.mark.parametrize(("kind", "check"), [("worker", "workers"), ("supervisor", "supervisor")])
async def test_a_silent_process_is_reported(stack, settings, kind, check):
    age = timedelta(seconds=settings.PULSE_SECONDS + 5)
    pulse = await Pulse.objects.aget(kind=kind)
    await Pulse.objects.filter(kind=kind).aupdate(at=pulse.at - age)

    status, body = await ask()

    assert (status, body["status"]) == (503, "degraded")
    assert body["checks"].pop(check).startswith("no sign of life for")
    assert set(body["checks"].values()) == {"ok"}


async def test_a_process_that_never_started_is_reported(stack):
    await Pulse.objects.filter(kind="worker").adelete()

    assert (await ask())[1]["checks"]["workers"] == "no sign of life yet"


async def test_a_failing_database_is_reported_without_its_error_message(stack, monkeypatch):
    def refuse() -> None:
        raise OperationalError("password of user postgres is wrong")

    monkeypatch.setattr(health, "read_database", refuse)
    status, body = await ask()

    assert status == 503
    assert body["checks"]["database"] == "out of reach"
    assert "postgres" not in str(body)


async def test_a_hanging_database_is_reported_without_waiting_for_it(stack, monkeypatch):
    monkeypatch.setattr(health, "DATABASE_SECONDS", 0.05)
    monkeypatch.setattr(health, "read_database", lambda: time.sleep(0.5))
    _, body = await ask()

    assert body["checks"]["database"] == "no answer in time"


async def test_a_stream_that_loses_frames_is_reported(stack, monkeypatch):
    async def swallow(group: str, message: dict) -> None:
        """Drop the message."""

    monkeypatch.setattr(health, "STREAM_SECONDS", 0.05)
    monkeypatch.setattr(get_channel_layer(), "group_send", swallow)
    status, body = await ask()

    assert (status, body["checks"]["stream"]) == (503, "no answer in time")


async def test_repeated_requests_run_the_checks_once(stack, monkeypatch):
    calls = []
    real = health.read_database

    def counted() -> object:
        calls.append(1)
        return real()

    monkeypatch.setattr(health, "read_database", counted)
    for _ in range(5):
        await ask()

    assert len(calls) == 1


async def test_the_stream_check_leaves_nothing_behind(stack):
    layer = get_channel_layer()
    for _ in range(3):
        health.checker.forget()
        await ask()

    assert not layer._dispatcher.queues
    assert not layer._dispatcher.groups
