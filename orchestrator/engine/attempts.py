"""The attempts at a step, as people see them: those that failed, then the one its step tells of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.models import Step


@dataclass(frozen=True, kw_only=True)
class Attempt:
    number: int
    status: str
    error: dict[str, Any] | None
    started_at: datetime
    finished_at: datetime | None


def attempts_of(step: Step) -> list[Attempt]:
    """In order. `step.failures` should be prefetched when there are several steps."""
    told = [
        Attempt(
            number=one.number,
            status=one.status,
            error=one.error,
            started_at=one.started_at,
            finished_at=one.finished_at,
        )
        for one in sorted(step.failures.all(), key=lambda one: one.number)
    ]
    if step.tried_at and step.attempts > (told[-1].number if told else 0):
        told.append(
            Attempt(
                number=step.attempts,
                status=step.status,
                error=None,
                started_at=step.tried_at,
                finished_at=step.finished_at,
            )
        )
    return told
