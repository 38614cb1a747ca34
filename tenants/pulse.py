"""Writes and reads the heartbeats of workers, supervisors and terminal hosts."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

from django.db import connection
from django.db.models import Max
from django.utils import timezone

from tenants.models import Pulse


def beat(kind: str) -> None:
    """Record that this process is alive."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO process_pulses (kind, host, pid, at) VALUES (%s, %s, %s, clock_timestamp())"
            " ON CONFLICT (kind, host, pid) DO UPDATE SET at = excluded.at",
            [kind, socket.gethostname()[:80], os.getpid()],
        )


def pulse_age(kind: str) -> float | None:
    """Return the seconds since the newest heartbeat of this kind, or None if there is none."""
    at = Pulse.objects.filter(kind=kind).aggregate(at=Max("at"))["at"]
    return (timezone.now() - at).total_seconds() if at else None


def delete_old_pulses(*, seconds: float = 3600) -> None:
    """Delete the heartbeats of processes that ended long ago."""
    Pulse.objects.filter(at__lt=timezone.now() - timedelta(seconds=seconds)).delete()
