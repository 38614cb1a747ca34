"""Rows that a workspace calls by name: held while they change, and no name given twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from psycopg.errors import UniqueViolation
from pydantic import BaseModel

from agents.inputs import Input, merged, read_input
from config.faults import Conflict, NotFound
from tenants.models import OwnedModel

R = TypeVar("R", bound=OwnedModel)
M = TypeVar("M", bound=Input)


def hold(row: R) -> R:
    """The row as it is now, locked until the commit. It may have been deleted meanwhile."""
    rows: Any = type(row)._default_manager
    found: R | None = rows.select_for_update(no_key=True).filter(pk=row.pk).first()
    if found is None:
        raise NotFound
    return found


def read_change(model: type[M], row: OwnedModel, changes: Mapping[str, Any], *, replace: bool) -> M:
    """What the row would say after the change; with `replace`, what is not named is the default."""
    if replace:
        return read_input(model, changes)
    current = {name: getattr(row, name) for name in model.model_fields}
    return read_input(model, merged(current, changes))


def write(row: R, given: BaseModel, *, what: str) -> R:
    """Let the row say what was given, as the database then has it."""
    fields = given.model_dump(mode="json")
    for name, value in fields.items():
        setattr(row, name, value)
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        raise Conflict(f"{what} is named {fields['name']!r} already.") from None
    row.refresh_from_db()
    return row
