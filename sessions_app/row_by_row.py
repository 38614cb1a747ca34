"""Does something with each of many rows. One that fails is told in the log and holds up no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog
from django.db import InterfaceError, OperationalError

T = TypeVar("T")

log = structlog.get_logger(__name__)


def for_each(rows: Iterable[T], act: Callable[[T], object]) -> list[T]:
    """Those for which the act was done: it answered with something that is true."""
    return [row for row in rows if _did(act, row)]


def _did(act: Callable[[T], object], row: T) -> bool:
    try:
        return bool(act(row))
    except (OperationalError, InterfaceError):
        raise  # the database is away, for all of them
    except Exception:
        log.exception("row_left_out", row=str(row), act=act.__name__)
        return False
