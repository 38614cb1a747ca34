"""Switches on the cache of keys, which the settings of the tests switch off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.test import override_settings

from core.db import connect
from tenants import keys

HOUR = 3600


@contextmanager
def cached_keys() -> Iterator[None]:
    """Cache keys for an hour during the block, so that only a notification can end that."""
    with override_settings(KEY_CACHE_SECONDS=HOUR):
        try:
            assert keys._recent._subscribe().active.wait(30)
            yield
        finally:
            keys._recent.close()


def change_silently(statement: str) -> None:
    """Change rows without the notification that a trigger would send."""
    with connect() as side:
        side.execute("SET session_replication_role = replica")
        side.execute(statement.encode())
