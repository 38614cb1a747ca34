"""Asks some worker to reconsider a session. Waking twice, or in vain, is harmless."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sessions_app.statements import rows

CHANNEL = "switchyard_wake"


def wake(session_id: UUID) -> None:
    """The wake-up takes effect with the surrounding transaction."""
    wake_many([session_id])


def wake_many(session_ids: Sequence[UUID]) -> None:
    rows(
        "SELECT pg_notify(%s, i) FROM unnest(%s::text[]) i",
        [CHANNEL, [str(i) for i in session_ids]],
    )
