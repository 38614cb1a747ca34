"""Locks, validates and saves rows that have a unique name in their workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation
from pydantic import BaseModel

from core.exceptions import Conflict, NotFound
from core.validation import Input, merge_fields, read_input
from tenants.models import OwnedModel

R = TypeVar("R", bound=OwnedModel)
M = TypeVar("M", bound=Input)


def lock_row(row: R) -> R:
    """Return the row as it is now, locked until the transaction ends.

    Raise NotFound if it was deleted in the meantime.
    """
    rows: Any = type(row)._default_manager
    found: R | None = rows.select_for_update(no_key=True).filter(pk=row.pk).first()
    if found is None:
        raise NotFound
    return found


def read_change(model: type[M], row: OwnedModel, changes: Mapping[str, Any], *, replace: bool) -> M:
    """Return the validated fields after a change; with `replace`, unnamed fields get their default."""
    if replace:
        return read_input(model, changes)
    current = {name: getattr(row, name) for name in model.model_fields}
    return read_input(model, merge_fields(current, changes))


def save_row(row: R, given: BaseModel, *, what: str) -> R:
    """Save the validated fields, and reload the row as the database has it.

    Raise Conflict if another row has the name; `what` begins the message.
    """
    fields = given.model_dump(mode="json")
    for name, value in fields.items():
        setattr(row, name, value)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        raise Conflict(f"{what} is already named {fields['name']!r}.") from None
    row.refresh_from_db()
    return row
