"""Signs of life of the processes behind the web."""

from __future__ import annotations

from django.db import models


class Pulse(models.Model):
    """The last sign of life of one process."""

    kind = models.CharField(max_length=16)
    host = models.CharField(max_length=80)
    pid = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "process_pulses"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "host", "pid"], name="pulse_is_one_per_process"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"
