"""Writes and reads the signs of life of workers and supervisors."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

from django.db import connection
from django.db.models import Max
from django.utils import timezone

from tenants.models import Pulse


def beat(kind: str) -> None:
    """This process lives."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO process_pulses (kind, host, pid, at) VALUES (%s, %s, %s, clock_timestamp())"
            " ON CONFLICT (kind, host, pid) DO UPDATE SET at = excluded.at",
            [kind, socket.gethostname()[:80], os.getpid()],
        )


def freshest(kind: str) -> float | None:
    """Seconds since the youngest sign of life of this kind, or None when there never was one."""
    at = Pulse.objects.filter(kind=kind).aggregate(at=Max("at"))["at"]
    return (timezone.now() - at).total_seconds() if at else None


def forget_old(*, seconds: float = 3600) -> None:
    """Drop the signs of processes that ended long ago."""
    Pulse.objects.filter(at__lt=timezone.now() - timedelta(seconds=seconds)).delete()
