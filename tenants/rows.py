"""Rows that somebody else may change or delete at the same moment."""

from __future__ import annotations

from typing import TypeVar

from django.db import models, transaction

from config.faults import NotFound

M = TypeVar("M", bound=models.Model)


def hold(row: M) -> M:
    """The row as it is now, held until the commit. One that was deleted meanwhile is not found."""
    return _locked(row, to_delete=False)


@transaction.atomic
def remove(row: models.Model) -> None:
    """Delete the row and what hangs on it.

    It is locked first: what others hang on it meanwhile would be left over and fail a commit.
    """
    _locked(row, to_delete=True).delete()


def _locked(row: M, *, to_delete: bool) -> M:
    rows = type(row)._default_manager.select_for_update(no_key=not to_delete)
    found = rows.filter(pk=row.pk).first()
    if found is None:
        raise NotFound
    return found
